"""The image of the docker backend's containers: Debian with packages.txt, and of this package what they execute.

`make sandbox-image` builds it (build.sh): by the Dockerfile, upon Debian's own image, or where no registry can be
reached upon the same packages put together by debootstrap.sh.
"""

import hashlib
from pathlib import Path

TAG = "curate-sandbox"
LABEL = "curate-sandbox.sources"  # of the image: the fingerprint of what it was built from
USER = "65432:65432"  # Debian gives this id to nobody: outside a container nothing is its
NUMPY = {"numpy": "/usr/lib/python3/dist-packages/numpy"}  # where Debian has it

_PACKAGE = Path(__file__).parents[1]
_FOR_CALLERS = {
    "backends", "commands", "concurrency", "service", "box.py", "conformance.py", "maxima.py", "record.py",
}  # fmt: skip


def sources() -> list[str]:
    """The files that go into the image, named from the package's folder."""
    recipe = [path for path in Path(__file__).parent.iterdir() if path.is_file()]
    names = (path.relative_to(_PACKAGE) for path in {*_PACKAGE.rglob("*.py"), *recipe})
    return sorted(str(name) for name in names if not _is_for_callers(name))


def _is_for_callers(name: Path) -> bool:
    """No worker imports it: a change of it makes no other image."""
    return name.parts[0] in _FOR_CALLERS


def fingerprint() -> str:
    """Tells one version of what goes into the image from another."""
    digest = hashlib.sha256()
    for name in sources():
        digest.update(f"{name}\0".encode() + (_PACKAGE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]
