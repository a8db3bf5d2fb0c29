#!/bin/sh
# A Debian system with packages.txt, made of Debian's packages alone: for where no registry can be reached.
#
#     debootstrap.sh TAG        imports it into the Docker engine under this tag; a minute, 700 MB in $TMPDIR
#
# Needs root, and debootstrap (apt install debootstrap). DEBIAN_MIRROR says where packages come from.
set -eu
tag=$1
here=$(dirname "$0")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

if [ "$(id -u)" != 0 ]; then
    echo "debootstrap needs root; type: sudo make sandbox-image" >&2
    exit 1
fi
if ! command -v debootstrap >/dev/null; then
    echo "debootstrap is missing; on Debian and Ubuntu: apt install debootstrap" >&2
    exit 1
fi

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' HUP INT TERM
packages=$(paste -s -d , "$here/packages.txt")
if ! debootstrap --variant=minbase --include="$packages" bookworm "$root" "$mirror" >"$root.log" 2>&1; then
    tail -n 20 "$root.log" "$root/debootstrap/debootstrap.log" >&2
    echo "debootstrap failed; its complete output is in $root.log" >&2
    exit 1
fi
rm -f "$root.log"
# What the image of a registry does not have either.
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/var/log/*
rm -rf "$root"/usr/share/doc "$root"/usr/share/info "$root"/usr/share/locale "$root"/usr/share/man
tar --create --one-file-system --directory "$root" . | docker import - "$tag" >/dev/null
