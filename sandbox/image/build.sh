#!/bin/sh
# Build the image of the docker backend, unless there is one of just these sources:  make sandbox-image
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."  # the package: all that goes into the image
python=${PYTHON:-python3}
say() { echo "sandbox-image: $*"; }
exists() { docker image inspect "$1" >/dev/null 2>&1; }

ask() { PYTHONPATH=.. "$python" -c "from sandbox import image; print($1)"; }
tag=$(ask image.TAG)
label=$(ask image.LABEL)
fingerprint=$(ask "image.fingerprint()")

if ! command -v docker >/dev/null; then
    echo "the command docker is missing; on Debian and Ubuntu: apt install docker.io" >&2
    exit 1
fi
if ! docker version >/dev/null; then
    echo "no Docker engine answers; start one (as root: dockerd), or say with DOCKER_HOST where it is" >&2
    exit 1
fi
if [ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$tag" 2>/dev/null)" = "$fingerprint" ]; then
    say "$tag is there already, built from these sources"
    exit
fi

system=debian:12-slim
network=default
if ! exists $system && ! timeout 120 docker pull --quiet $system >/dev/null 2>&1; then
    system=curate-sandbox-system:$(cat image/debootstrap.sh image/packages.txt | cksum | cut -d ' ' -f 1)
    network=none  # it has everything
    if exists "$system"; then
        say "debian:12-slim cannot be pulled: building upon $system"
    else
        say "debian:12-slim cannot be pulled: making $system of Debian's packages; this takes a minute"
        image/debootstrap.sh "$system"
    fi
fi

# Through a pipe: modes and owners must not be those of somebody's checkout.
ask '"\n".join(image.sources())' | tar --create --files-from=- --mode=u=rwX,go=rX --owner=0 --group=0 |
    docker build --quiet --force-rm --tag "$tag" --label "$label=$fingerprint" --build-arg "SYSTEM=$system" \
        --network "$network" --file image/Dockerfile - >/dev/null
docker image prune --force --filter "label=$label" >/dev/null  # earlier ones
say "built $tag"
