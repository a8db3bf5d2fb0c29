"""The image: the file system of programs, one per Sandbox. It is a copy in memory of the interpreter, its standard
library and their shared libraries, and contains nothing else of the machine.

Shared files would leak more than their content. By watching, locking or evicting them, a program could observe other
runs. The mount table would reveal their paths, and packages next to the library may contain expected outputs. The image
has its own read-only file systems:

    ROOT               the root of programs. The zygote's code is below RUN_ROOT, hidden by each run's workspace
    COMPILE_DIRECTORY  the same root with mount points for a compiler; also below RUN_ROOT
    PACKAGES           packages from outside the standard library, for programs that name them

They are in a separate mount namespace, and exist until its last process exits. The image excludes compilers, which take
a hundred megabytes each; a zygote that compiles uses the machine's.

On machines without mount namespaces, make_copy makes the same image in a plain folder, for programs in Landlock
domains.
"""

import contextlib
import ctypes
import json
import marshal
import os
import re
import socket
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from types import CodeType

from sandbox import languages
from sandbox.jail.child import PACKAGES as VISIBLE_PACKAGES
from sandbox.jail.child import RUN_ROOT
from sandbox.jail.packages import EXCLUDED as EXCLUDED_FROM_PACKAGES
from sandbox.jail.packages import JailPackages, list_distribution_files
from sandbox.kernel import linux

MOUNT_ROOT = "/tmp"  # mount point of the image in its namespace; exists on every machine
ROOT, PACKAGES = f"{MOUNT_ROOT}/root", f"{MOUNT_ROOT}/packages"
COMPILE_DIRECTORY = f"{ROOT}{RUN_ROOT}/compiling"
# Folders below ROOT. LIBRARIES contains the shared libraries from outside the system's folders.
CODE, LIBRARIES = f"{RUN_ROOT}/code", f"{RUN_ROOT}/lib"
IMAGE_READY = b"made"
_MAX_MESSAGE_BYTES = 1 << 18
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
INTERPRETER = f"/usr/bin/{_PYTHON}"
DEVICES = ("null", "zero", "full", "random", "urandom")
_EXTENSIONS = "lib-dynload"
_MOUNT_LINKS = {"proc": f"{RUN_ROOT}/proc", "tmp": f"{RUN_ROOT}/tmp"}  # links to each run's mounts
_LINKS = {
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "dev/shm": "/tmp",
    "var/tmp": "/tmp",
    "usr/bin/python": _PYTHON,
    "usr/bin/python3": _PYTHON,
}
_EXCLUDED = re.compile(  # modules of no use to a program: GUIs, installers, documentation
    r"(site|dist)-packages|tests?|_test.*\.so|_xxtest.*|config-.*|.*\.opt-[12]\.pyc|.*\.a|_?tkinter.*|turtledemo|idlelib"
    r"|ensurepip|lib2to3|pydoc_data"
)
_EXCLUDED_DATA = re.compile(r"right|posix")  # variants of the time zones
_DATA = ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8")
_PYC_HEADER = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)  # header of a .pyc file without source
_SYSTEM_FOLDER = re.compile(r"(/usr)?/lib(32|64)?(/[^/]*-linux-[^/]*)?")
# glibc loads libgcc_s when a thread exits; programs load the others by ctypes, some by old names.
_EXTRA_LIBRARIES = "libgcc_s.so.1 libstdc++.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1".split()


def main(socket_fd: int, folder: str) -> None:
    """Make an image for the process at the other end of the socket, and send IMAGE_READY or the error.

    folder   folder for the image; "" for an image in namespaces, whose descriptors accompany IMAGE_READY
    """
    channel = socket.socket(fileno=socket_fd)
    packages = JailPackages(**json.loads(channel.recv(_MAX_MESSAGE_BYTES)))
    names: list[str] = []
    try:
        if folder:
            make_copy(packages, folder)
        else:
            names = ["user", "mnt"] if make_image(packages) else ["mnt"]
    except Exception as error:
        channel.send(f"{type(error).__name__}: {error}".encode())
        return
    socket.send_fds(channel, [IMAGE_READY], [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names])


def enter_namespaces(namespaces: Iterable[int]) -> None:
    """Enter the namespaces of an image, in the order from `main`, in a single-threaded process. Raises OSError."""
    for descriptor in namespaces:
        linux.setns(descriptor, 0)
        os.close(descriptor)


def make_image(packages: JailPackages) -> bool:
    """Make the image in a new mount namespace of this single-threaded process.

    Returns whether the mount namespace required a new user namespace. Raises OSError.
    """
    has_user_namespace = _enter_mount_namespace()
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    sources = _ImageSources(packages)
    toolchains = _list_toolchain_paths()
    for location in (MOUNT_ROOT, ROOT, PACKAGES):
        if location != MOUNT_ROOT:
            os.mkdir(location, 0o755)
        linux.mount("tmpfs", location, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    sources.copy(ROOT, PACKAGES)
    for name, destination in _MOUNT_LINKS.items():
        os.symlink(destination, f"{ROOT}/{name}")
    if toolchains:
        link_folder(ROOT, COMPILE_DIRECTORY, excluded_path=COMPILE_DIRECTORY)
    for path in toolchains:
        _make_mount_point(path)
    for root in [ROOT, COMPILE_DIRECTORY] if toolchains else [ROOT]:
        for name in DEVICES:
            device = f"{root}/dev/{name}"
            os.close(os.open(device, os.O_CREAT | os.O_WRONLY, 0o644))
            linux.mount(f"/dev/{name}", device, None, linux.MS_BIND)
            linux.make_readonly(device, nodev=False)
    for location in (MOUNT_ROOT, ROOT, PACKAGES):
        linux.mount(None, location, None, linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV)
    return has_user_namespace


def make_copy(packages: JailPackages, folder: str) -> None:
    """Make the image, with read-only files, in an empty folder. Raises OSError."""
    os.umask(0o022)
    sources = _ImageSources(packages)
    copy = ImageCopy(folder)
    for path in (copy.root, copy.packages):
        os.mkdir(path, 0o755)
    sources.copy(copy.root, copy.packages)
    sources.link_libraries(copy.root)
    for path, _, names in os.walk(folder):
        for name in names:
            if not os.path.islink(location := f"{path}/{name}"):
                os.chmod(location, 0o555 if os.stat(location).st_mode & stat.S_IXUSR else 0o444)


@dataclass(frozen=True, slots=True)
class ImageCopy:
    """The folders of an image from make_copy."""

    folder: str

    @property
    def root(self) -> str:
        return f"{self.folder}/root"

    @property
    def packages(self) -> str:
        return f"{self.folder}/packages"

    @property
    def libraries(self) -> str:
        """The folder of all shared libraries, for the dynamic loader."""
        return self.root + LIBRARIES


def list_readable_paths(root: str) -> list[str]:
    """Return the paths that programs must read and execute: the root without the zygote's code and runs' folders."""
    folders = [
        entry for entry in os.scandir(root) if not entry.is_symlink() and entry.name not in (RUN_ROOT[1:], "tmp")
    ]
    return [*(folder.path for folder in folders), f"{root}{LIBRARIES}"]


def list_loader_paths() -> list[str]:
    """Return the paths of the dynamic loaders, as recorded in executables."""
    return glob("/lib*/ld-*.so*")


class _ImageSources:
    """The sources of an image. The constructor opens them, since mounts of the image may hide them later."""

    def __init__(self, packages: JailPackages) -> None:
        stdlib, target = os.path.dirname(os.__file__), f"/usr/{sys.platlibdir}/{_PYTHON}"
        # None if all extension modules are built in; separate from the standard library if lib and lib64 differ.
        extensions = [path for path in sys.path if os.path.basename(path) == _EXTENSIONS and os.path.isdir(path)]
        separate_extensions = [path for path in extensions if os.path.dirname(path) != stdlib]
        distributions = [_Distribution(path) for path in packages.distributions]
        self._libraries, self._foreign = _find_needed_libraries([*extensions, *packages.trees.values()], distributions)
        self._trees = [
            _Tree(stdlib, target, _EXCLUDED),
            *(_Tree(path, f"{target}/{_EXTENSIONS}", _EXCLUDED) for path in separate_extensions),
            _Tree(os.path.realpath(sys.executable), INTERPRETER, _EXCLUDED),
            *(_Tree(path, path, _EXCLUDED_DATA) for path in _DATA if os.path.isdir(path)),
            *(_Tree(source, target, _EXCLUDED) for target, source in self._libraries.items()),
        ]
        self._packages: list[_Tree | _Distribution] = [
            *(_Tree(path, f"/{name}", EXCLUDED_FROM_PACKAGES) for name, path in packages.trees.items()),
            *distributions,
        ]
        self._sources = packages.sources
        self._code = os.open(Path(__file__).parents[1], os.O_PATH)
        self._links = {path: os.readlink(path) for path in ("/lib", "/lib64", "/bin") if os.path.islink(path)}

    def copy(self, root: str, packages: str) -> None:
        """Copy the packages to one folder, and everything else to a root folder. Raises OSError."""
        for path, destination in self._links.items():
            os.symlink(destination, root + path)
        for folder in (
            "/dev",
            VISIBLE_PACKAGES,
            "/var",
            f"{RUN_ROOT}/proc",
            f"{RUN_ROOT}/tmp",
            CODE,
            LIBRARIES,
            "/lib64",
        ):
            if folder not in self._links:
                os.makedirs(root + folder, 0o755, exist_ok=True)
        for tree in self._trees:
            tree.copy(root)
        for package in self._packages:
            package.copy(packages)
        for name, source in self._sources.items():
            Path(packages, f"{name}.py").write_text(source, "utf-8")
        for path in self._foreign:  # mounts for a compiler hide their original folder
            os.link(root + path, f"{root}{LIBRARIES}/{os.path.basename(path)}")
        for name, destination in _LINKS.items():
            os.symlink(destination, f"{root}/{name}")
        _compile_package(self._code, root)

    def link_libraries(self, root: str) -> None:
        """Link all shared libraries into one folder, for loaders outside the image."""
        for path in self._libraries:
            with contextlib.suppress(FileExistsError):
                os.link(root + path, f"{root}{LIBRARIES}/{os.path.basename(path)}")


def _enter_mount_namespace() -> bool:
    """Enter a new mount namespace; return whether that required a user namespace. Raises OSError."""
    try:
        linux.unshare(linux.CLONE_NEWNS)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        return True
    return False


class _Tree:
    """A file or folder of the machine, and its path in the image."""

    def __init__(self, source: str, target: str, excluded: re.Pattern[str]) -> None:
        self._source = os.open(source, os.O_PATH)
        self._target = target
        self._excluded = excluded

    def copy(self, location: str) -> None:
        target = location + self._target
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        source = f"/proc/self/fd/{self._source}"
        if os.path.isdir(source):
            self._copy_folder(source, target)
        else:
            _copy_file(source, target)
        os.close(self._source)

    def _copy_folder(self, source: str, target: str) -> None:
        os.makedirs(target, 0o755, exist_ok=True)
        for entry in os.scandir(source):
            if self._excluded.fullmatch(entry.name):
                continue
            if entry.is_dir():
                self._copy_folder(entry.path, f"{target}/{entry.name}")
            elif entry.is_file():  # False for a broken link
                _copy_file(entry.path, f"{target}/{entry.name}")


class _Distribution:
    """The files of an installed distribution for programs. path: its .dist-info folder."""

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(path)
        self._folder = os.open(folder, os.O_PATH)
        self._names = list_distribution_files(path)
        self.paths = [f"{folder}/{name}" for name in self._names]

    def copy(self, location: str) -> None:
        for name in self._names:
            source, target = f"/proc/self/fd/{self._folder}/{name}", f"{location}/{name}"
            os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
            _copy_file(source, target)
            if name.endswith(".py"):
                compiled = cache_from_source(target)
                os.makedirs(os.path.dirname(compiled), 0o755, exist_ok=True)
                with contextlib.suppress(Exception):  # the file may be a template, or code for another Python version
                    _write_compiled(source, compiled, f"{VISIBLE_PACKAGES}/{name}")
        os.close(self._folder)


def _copy_file(source: str, target: str) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(reader)
        mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            while os.sendfile(writer, reader, None, 1 << 30):
                pass
            os.fchmod(writer, mode)  # the umask may have changed the mode
            os.utime(writer, ns=(status.st_mtime_ns, status.st_mtime_ns))  # .pyc files record this time
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _compile_package(package: int, root: str) -> None:
    """Compile the zygote's modules into the image. package: descriptor of the machine's folder sandbox/."""
    source = f"/proc/self/fd/{package}"
    names = ["__init__.py"]
    for folder in ("jail", "kernel", "languages"):
        os.makedirs(f"{root}{CODE}/sandbox/{folder}", 0o755)
        names += (f"{folder}/{name}" for name in os.listdir(f"{source}/{folder}") if name.endswith(".py"))
    for name in names:
        _write_compiled(f"{source}/{name}", f"{root}{CODE}/sandbox/{name}c", f"{CODE}/sandbox/{name}")
    os.close(package)


def _write_compiled(source: str, target: str, visible_path: str) -> None:
    """Compile a module as if it were at `visible_path`. Raises SyntaxError or ValueError.

    Prefers a cached .pyc, which is ten times as fast, and replaces the machine's path in it.
    """
    code = SourceFileLoader(visible_path, source).get_code(visible_path)
    assert code is not None
    with open(target, "wb") as file:
        file.write(_PYC_HEADER + marshal.dumps(_relocate(code, visible_path)))


def _relocate(code: CodeType, path: str) -> CodeType:
    constants = tuple(_relocate(each, path) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=path, co_consts=constants)


def link_folder(source: str, target: str, excluded_path: str = "") -> None:
    """Copy a folder tree by hard links. excluded_path: folder to skip; "" for none."""
    entries = list(os.scandir(source))
    os.makedirs(target, 0o755, exist_ok=True)
    for entry in entries:
        if entry.path == excluded_path:
            continue
        if entry.is_dir(follow_symlinks=False):
            link_folder(entry.path, f"{target}/{entry.name}", excluded_path)
        else:
            os.link(entry.path, f"{target}/{entry.name}", follow_symlinks=False)


def _make_mount_point(path: str) -> None:
    location = COMPILE_DIRECTORY + path
    if os.path.isdir(path):
        os.makedirs(location, 0o755, exist_ok=True)
    elif not os.path.exists(location):
        os.makedirs(os.path.dirname(location), 0o755, exist_ok=True)
        os.close(os.open(location, os.O_CREAT | os.O_WRONLY, 0o644))


def _list_toolchain_paths() -> list[str]:
    paths: list[str] = []
    for name in languages.list_names():
        try:
            paths += languages.load(name).toolchain()
        except LookupError:
            continue
    return paths


def _find_needed_libraries(
    folders: Iterable[str], distributions: Iterable[_Distribution]
) -> tuple[dict[str, str], list[str]]:
    """Find the dynamic loader, and all shared libraries of the interpreter and of the extension modules in the folders
    and distributions. A forked process loads these modules and lists its shared objects.

    Returns path in the image -> path on the machine, and the image paths of libraries from outside the system's
    folders.
    """
    copied = [path for distribution in distributions for path in distribution.paths]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            modules = [path for folder in folders for path in glob(f"{folder}/**/*.so", recursive=True)]
            modules += (path for path in copied if path.endswith(".so"))
            modules = [path for path in modules if not _EXCLUDED.fullmatch(os.path.basename(path))]
            for name in (*modules, *_EXTRA_LIBRARIES):
                with contextlib.suppress(OSError):  # a broken module or missing library
                    ctypes.CDLL(name, mode=os.RTLD_LAZY)
            with os.fdopen(writer, "w") as pipe:
                json.dump(_list_loaded_objects(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        loaded: list[str] = json.loads(pipe.read() or "[]")
    os.waitpid(pid, 0)
    if not loaded:
        raise OSError("cannot list the shared libraries of the interpreter: the process that loads them failed")
    roots = tuple(f"{folder}/" for folder in folders)
    package_files = set(map(os.path.realpath, copied))
    libraries = [
        name
        for name in loaded
        if os.path.exists(name) and not name.startswith(roots) and os.path.realpath(name) not in package_files
    ]
    locations = {name: f"{os.path.realpath(os.path.dirname(name))}/{os.path.basename(name)}" for name in libraries}
    system = next(
        os.path.dirname(location) for location in locations.values() if os.path.basename(location).startswith("libc.so")
    )
    sources: dict[str, str] = {}
    foreign: list[str] = []
    for name, location in locations.items():
        if _SYSTEM_FOLDER.fullmatch(os.path.dirname(location)):
            sources[location] = name
        else:  # moved to a folder that the loader always searches
            sources[f"{system}/{os.path.basename(name)}"] = name
            foreign.append(os.path.basename(name))
    for loader in list_loader_paths():
        sources[f"{os.path.realpath(os.path.dirname(loader))}/{os.path.basename(loader)}"] = loader
    return sources, [f"{system}/{name}" for name in foreign]


class _DlPhdrInfo(ctypes.Structure):
    """The beginning of struct dl_phdr_info."""

    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]


def _list_loaded_objects() -> list[str]:
    """Return the absolute, unresolved paths of this process's shared objects."""
    names: list[str] = []

    def record(info: "ctypes._Pointer[_DlPhdrInfo]", _size: int, _data: int) -> int:
        name = os.fsdecode(info.contents.name or b"")
        if name.startswith("/"):
            names.append(name)
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_DlPhdrInfo), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(record), None)
    return names
