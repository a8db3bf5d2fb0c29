"""The file system a program sees: the interpreter's library, the shared libraries it needs, five devices, and
an empty /tmp. Read-only throughout; no home, no /etc, no host path beside these.
"""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from glob import glob

from sandbox.jail import linux

PACKAGES = "/packages"  # where packages from outside the standard library appear; on sys.path of programs
DEVICES = ("null", "zero", "full", "random", "urandom")
_ROOT = "/tmp"  # any directory that exists: the new root is mounted over it, in this mount namespace alone


def _visible() -> Iterator[str]:
    """Host paths that programs see, read-only, under the same name."""
    yield sysconfig.get_path("stdlib")
    yield sysconfig.get_path("platstdlib")
    yield os.path.realpath(sys.executable)
    for loader in glob("/lib*/ld-*.so*"):
        yield os.path.join(os.path.realpath(os.path.dirname(loader)), os.path.basename(loader))
    yield "/usr/share/zoneinfo"
    yield "/usr/lib/locale/C.utf8"
    yield "/etc/alternatives"  # symbolic links that Debian's libblas is found through
    with open("/proc/self/maps") as maps:
        libraries = set(re.findall(r"(/\S+?\.so(?:\.\S+)?)$", maps.read(), re.MULTILINE))
    stdlib = sysconfig.get_path("stdlib") + "/"
    for library in libraries:
        if not library.startswith(stdlib):
            # The directory: what is imported later needs its neighbours (libssl, libsqlite3, ...). But not a
            # directory that holds more than libraries.
            folder = os.path.dirname(library)
            yield folder if re.search(r"/lib(64)?(/[^/]*-linux-[^/]*)?$", folder) else library


def build(packages: dict[str, str], toolchain: list[str]) -> None:
    """Replace the root of the calling process by the file system of programs.

    packages: name below PACKAGES -> host path. toolchain: host paths that are visible under the same name.
    The caller has its own user and mount namespace, is still the user that may read the host's files, and must be
    able to become uid 0 of the namespace: only a mapped uid can create files in the new root.
    """
    sources = {path: path for path in sorted({*_visible(), *toolchain}) if os.path.exists(path)}
    sources |= {f"{PACKAGES}/{name}": path for name, path in packages.items()}
    sources |= {f"/dev/{name}": f"/dev/{name}" for name in DEVICES}
    # Opened now, as the user that may walk the host's directories; bound later through the descriptor.
    opened = {target: os.open(source, os.O_PATH) for target, source in sources.items()}
    links = {path: os.readlink(path) for path in ("/lib", "/lib64", "/bin") if os.path.islink(path)}

    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    become_namespace_root()
    linux.mount("tmpfs", _ROOT, "tmpfs", linux.MS_NOSUID, "mode=755,size=1m")
    for folder in ("dev", "var", "box", "box/proc", "box/tmp", *(["lib64"] if os.path.isdir("/lib64") else [])):
        if f"/{folder}" not in links:
            os.mkdir(f"{_ROOT}/{folder}", 0o755)
    for path, destination in links.items():
        os.symlink(destination, _ROOT + path)
    bound: list[str] = []
    for target, descriptor in opened.items():
        if any(target.startswith(other + "/") for other in bound):
            continue  # inside a directory that is there already
        place = _ROOT + target
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            os.makedirs(place, 0o755, exist_ok=True)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        linux.mount(f"/proc/self/fd/{descriptor}", place, None, linux.MS_BIND | linux.MS_REC)
        linux.make_readonly(place, nodev=not target.startswith("/dev/"))
        os.close(descriptor)
        bound.append(target)
    for name, destination in {
        "proc": "/box/proc",
        "tmp": "/box/tmp",
        "dev/fd": "/proc/self/fd",
        "dev/stdin": "/proc/self/fd/0",
        "dev/stdout": "/proc/self/fd/1",
        "dev/stderr": "/proc/self/fd/2",
        "dev/shm": "/tmp",
        "var/tmp": "/tmp",
    }.items():
        os.symlink(destination, f"{_ROOT}/{name}")
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", f"{_ROOT}/box/proc", "proc", flags, "subset=pid")
    linux.pivot_root(_ROOT)
    linux.mount(None, "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)


def become_namespace_root() -> None:
    """Take uid and gid 0 of the user namespace if the mapping has them; keep the capabilities."""
    with open("/proc/self/uid_map") as file:
        if any(line.split()[0] == "0" for line in file):
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
