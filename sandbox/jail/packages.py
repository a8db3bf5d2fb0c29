"""The packages outside the standard library that programs may import."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

NUMPY_PRELOADS = ("numpy", "numpy.linalg")  # preloaded for a program that imports no other package
EXCLUDED = re.compile(r"tests?|include|.*\.(opt-[12]\.pyc|pyi|a|h)")
_UNUSABLE_FILES = re.compile(r".*\.(pth|pyc|egg-link)")  # .pth files have no effect here; .pyc files contain old paths
_METADATA_FILES = ("METADATA", "entry_points.txt")  # other files reveal details of the installation


@dataclass(frozen=True, slots=True)
class JailPackages:
    """The files copied for programs, and the modules that their zygote preloads.

    trees              folders copied completely, such as numpy's if no packages are requested: name -> path
    distributions      paths of .dist-info folders of installed distributions, whose listed files are copied
    modules            importable names; a program gets the packages if its source contains one of them
    preloaded_modules  modules loaded before the program starts
    sources            the caller's own modules: name -> source
    """

    trees: dict[str, str]
    distributions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ("numpy",)
    preloaded_modules: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.trees or self.distributions or self.sources)

    def modules_to_preload(self, source: str) -> tuple[str, ...]:
        """Return the modules to preload for a program with this source; () if it gets no packages."""
        named = {name for name in self.modules if name in source} if self else set()
        if not named:
            return ()
        numpy = NUMPY_PRELOADS if "numpy" in (named if self.trees else self.modules) else ()
        return numpy if numpy and named == {"numpy"} else (*numpy, *self.preloaded_modules)


def listed_files(distribution: str) -> list[str]:
    """Return the files of a distribution for programs, as paths relative to its installation folder.

    distribution: path of its .dist-info folder. The result is empty if this folder does not list the files.
    """
    from importlib.metadata import PathDistribution  # slow to import, and most workers never need it

    folder = Path(distribution)
    listed = PathDistribution(folder).files or []
    names = {str(path) for path in listed if _is_for_programs(path.parts, folder.name)}
    return sorted(name for name in names if os.path.isfile(folder.parent / name))


def _is_for_programs(parts: tuple[str, ...], metadata: str) -> bool:
    if ".." in parts or parts[0] == "/" or _UNUSABLE_FILES.fullmatch(parts[-1]):
        return False
    if parts[0] == metadata:
        return len(parts) == 2 and parts[1] in _METADATA_FILES
    return not any(EXCLUDED.fullmatch(part) for part in parts)
