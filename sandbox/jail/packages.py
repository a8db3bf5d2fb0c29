"""The packages from outside the standard library that programs may import."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

NUMPY_PRELOADS = ("numpy", "numpy.linalg")  # preloaded modules of a program that needs no other package
EXCLUDED = re.compile(r"tests?|include|.*\.(opt-[12]\.pyc|pyi|a|h)")
# .pth files have no effect in the image; .pyc files contain paths of the machine.
_UNUSABLE_FILES = re.compile(r".*\.(pth|pyc|egg-link)")
_METADATA_FILES = ("METADATA", "entry_points.txt")  # other metadata reveals details of the machine


@dataclass(frozen=True, slots=True)
class JailPackages:
    """The packages for programs, and the modules that their zygote preloads.

    trees              package folders to copy completely: name -> path; only numpy's, if the user requests no packages
    distributions      paths of .dist-info folders of installed distributions, whose RECORD lists the files to copy
    modules            importable names; a program gets the packages if its source contains one of them
    preloaded_modules  modules that the zygote imports before any program starts
    sources            the caller's own modules: name -> source
    """

    trees: dict[str, str]
    distributions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ("numpy",)
    preloaded_modules: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.trees or self.distributions or self.sources)

    def choose_preloads(self, source: str) -> tuple[str, ...]:
        """Return the modules to preload for a program with this source; () if it gets no packages."""
        named = {name for name in self.modules if name in source} if self else set()
        if not named:
            return ()
        numpy = NUMPY_PRELOADS if "numpy" in (named if self.trees else self.modules) else ()
        return numpy if numpy and named == {"numpy"} else (*numpy, *self.preloaded_modules)


def list_distribution_files(distribution: str) -> list[str]:
    """Return the files of a distribution that programs may use, as paths relative to its parent folder.

    distribution: path of its .dist-info folder. Returns an empty list without a RECORD.
    """
    from importlib.metadata import PathDistribution  # a slow import, which most workers never need

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
