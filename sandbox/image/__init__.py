"""The Docker image of workers: Debian, the packages in packages.txt, and the workers' source code.

`make sandbox-image` builds it; PACKAGES="pandas scipy" adds packages for programs, IMAGE=NAME sets its name.

    build.sh         builds the image, unless one with the same source code exists
    Dockerfile       the build, based on Debian's image
    debootstrap.sh   makes the base system from Debian's packages, for machines without a registry
    packages.txt     the Debian packages
"""

import hashlib
from pathlib import Path

TAG = "curate-sandbox"
LABEL = "curate-sandbox.sources"  # image label: fingerprint of the source code
PACKAGES_LABEL = "curate-sandbox.packages"  # image label: packages for programs, as JSON
INSTALLED = "/opt/curate/sandbox/installed"  # folder in the image with these packages
USER = "65432:65432"  # uid and gid of containers' processes; Debian assigns them to no user
NUMPY = {"numpy": "/usr/lib/python3/dist-packages/numpy"}  # name -> Debian's path

_PACKAGE = Path(__file__).parents[1]
_FOR_CALLERS = {  # workers never import these
    "backends", "commands", "concurrency", "probes", "service",
    "box.py", "closeable.py", "conformance.py", "extras.py", "http_client.py", "json_codec.py", "judge_record.py",
    "limit_bounds.py", "options.py", "packages.py",
}  # fmt: skip


def list_source_files() -> list[str]:
    """Return the image's source files, as paths relative to sandbox/."""
    recipe = [path for path in Path(__file__).parent.iterdir() if path.is_file()]
    names = (path.relative_to(_PACKAGE) for path in {*_PACKAGE.rglob("*.py"), *recipe})
    return sorted(str(name) for name in names if name.parts[0] not in _FOR_CALLERS)


def compute_fingerprint() -> str:
    """Return a hash of the image's source files."""
    digest = hashlib.sha256()
    for name in list_source_files():
        digest.update(f"{name}\0".encode() + (_PACKAGE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]
