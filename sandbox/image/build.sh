#!/bin/sh
# Build the image of the docker backend, unless it exists with the same sources:  make sandbox-image
# PACKAGES="pandas scipy" adds packages that programs can import; IMAGE=NAME sets the image's name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."  # the package, whose files go into the image
python=${PYTHON:-python3}
log() { echo "sandbox-image: $*"; }
exists() { docker image inspect "$1" >/dev/null 2>&1; }

evaluate() { PYTHONPATH=.. "$python" -c "from sandbox import image; print($1)"; }
tag=${IMAGE:-$(evaluate image.TAG)}
label=$(evaluate image.LABEL)
packages_label=$(evaluate image.PACKAGES_LABEL)
fingerprint=$(evaluate "image.compute_fingerprint()")

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
    # Wheels for Debian 12's interpreter, not for this one. pip's variables, such as PIP_FIND_LINKS, set their source.
    "$python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --no-compile --target "$staging/installed" \
        --only-binary :all: --implementation cp --python-version 3.11 \
        --platform "manylinux_2_28_$(uname -m)" --platform "manylinux2014_$(uname -m)" $PACKAGES
    described=$(PYTHONPATH=.. "$python" -c 'import sys; from sandbox import packages; print(packages.describe_installed(sys.argv[1]))' \
        "$staging/installed")
fi

label_of() { docker image inspect --format "{{index .Config.Labels \"$1\"}}" "$tag" 2>/dev/null; }
if [ "$(label_of "$label")" = "$fingerprint" ] && [ "$(label_of "$packages_label")" = "$described" ]; then
    log "$tag is up to date"
    exit
fi

system=debian:12-slim
network=default
if ! exists $system && ! timeout 120 docker pull --quiet $system >/dev/null 2>&1; then
    system=curate-sandbox-system:$(cat image/debootstrap.sh image/packages.txt | cksum | cut -d ' ' -f 1)
    network=none  # it already has the packages
    if exists "$system"; then
        log "debian:12-slim cannot be pulled: building on $system"
    else
        log "debian:12-slim cannot be pulled: building $system with debootstrap, which takes a minute"
        image/debootstrap.sh "$system"
    fi
fi

# Piped through tar, which normalizes the checkout's modes and owners.
evaluate '"\n".join(image.list_source_files())' |
    tar --create --mode=u=rwX,go=rX --owner=0 --group=0 --files-from=- --directory "$staging" installed |
    docker build --quiet --force-rm --tag "$tag" --label "$label=$fingerprint" --label "$packages_label=$described" \
        --build-arg "SYSTEM=$system" --network "$network" \
        --file image/Dockerfile - >/dev/null
docker image prune --force --filter "label=$label" >/dev/null  # earlier versions
log "built $tag"
