"""The image of docker containers: Debian with packages.txt, and the sources of workers.

`make sandbox-image` builds it; PACKAGES="pandas scipy" adds packages for programs, IMAGE=NAME sets its name.

    build.sh         builds the image, unless it exists with the same sources
    Dockerfile       the build, based on Debian's image
    debootstrap.sh   makes the base system from Debian's packages, for machines without a registry
    packages.txt     the Debian packages
"""

import hashlib
from pathlib import Path

TAG = "curate-sandbox"
LABEL = "curate-sandbox.sources"  # image label with the fingerprint of its sources
PACKAGES_LABEL = "curate-sandbox.packages"  # image label with its packages for programs, as JSON
INSTALLED = "/opt/curate/sandbox/installed"  # the image's folder of these packages
USER = "65432:65432"  # ids that Debian assigns to no user, so no file outside a container belongs to them
NUMPY = {"numpy": "/usr/lib/python3/dist-packages/numpy"}  # Debian's path

_PACKAGE = Path(__file__).parents[1]
_FOR_CALLERS = {  # only callers import these, so their changes do not require a new image
    "backends", "commands", "concurrency", "probes", "service",
    "box.py", "closeable.py", "conformance.py", "extras.py", "http_client.py", "json_codec.py", "judge_record.py",
    "limit_bounds.py", "options.py", "packages.py",
}  # fmt: skip


def list_source_files() -> list[str]:
    """Return the files for the image, as paths relative to the package's folder."""
    recipe = [path for path in Path(__file__).parent.iterdir() if path.is_file()]
    names = (path.relative_to(_PACKAGE) for path in {*_PACKAGE.rglob("*.py"), *recipe})
    return sorted(str(name) for name in names if not _is_for_callers(name))


def _is_for_callers(name: Path) -> bool:
    return name.parts[0] in _FOR_CALLERS


def compute_fingerprint() -> str:
    """Return a hash of the image's sources."""
    digest = hashlib.sha256()
    for name in list_source_files():
        digest.update(f"{name}\0".encode() + (_PACKAGE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]
