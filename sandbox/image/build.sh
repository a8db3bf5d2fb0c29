#!/bin/sh
# Build the image of the docker backend, unless there is one of just these sources:  make sandbox-image
# PACKAGES="pandas scipy" puts these packages into it, for programs to import; IMAGE=NAME gives it another name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."  # the package: all that goes into the image
python=${PYTHON:-python3}
say() { echo "sandbox-image: $*"; }
exists() { docker image inspect "$1" >/dev/null 2>&1; }

ask() { PYTHONPATH=.. "$python" -c "from sandbox import image; print($1)"; }
tag=${IMAGE:-$(ask image.TAG)}
label=$(ask image.LABEL)
packages_label=$(ask image.PACKAGES_LABEL)
fingerprint=$(ask "image.fingerprint()")

if ! command -v docker >/dev/null; then
    echo "the command docker is missing; on Debian and Ubuntu: apt install docker.io" >&2
    exit 1
fi
if ! docker version >/dev/null; then
    echo "no Docker engine responds; start one (as root: dockerd), or set DOCKER_HOST to its address" >&2
    exit 1
fi

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$staging/installed"
described="[]"
if [ -n "${PACKAGES:-}" ]; then
    # Wheels for the interpreter of Debian 12, not for this one. pip's own variables, such as PIP_FIND_LINKS, say where from.
    "$python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --no-compile --target "$staging/installed" \
        --only-binary :all: --implementation cp --python-version 3.11 \
        --platform "manylinux_2_28_$(uname -m)" --platform "manylinux2014_$(uname -m)" $PACKAGES
    described=$(PYTHONPATH=.. "$python" -c 'import sys; from sandbox import packages; print(packages.describe_installed(sys.argv[1]))' \
        "$staging/installed")
fi

label_of() { docker image inspect --format "{{index .Config.Labels \"$1\"}}" "$tag" 2>/dev/null; }
if [ "$(label_of "$label")" = "$fingerprint" ] && [ "$(label_of "$packages_label")" = "$described" ]; then
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
ask '"\n".join(image.source_files())' |
    tar --create --mode=u=rwX,go=rX --owner=0 --group=0 --files-from=- --directory "$staging" installed |
    docker build --quiet --force-rm --tag "$tag" --label "$label=$fingerprint" --label "$packages_label=$described" \
        --build-arg "SYSTEM=$system" --network "$network" \
        --file image/Dockerfile - >/dev/null
docker image prune --force --filter "label=$label" >/dev/null  # earlier ones
say "built $tag"
