"""Find the packages that programs may import besides the standard library, and their dependencies, in the environment
of this process or in a folder made by `pip install --target FOLDER`.
"""

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.errors import BackendUnavailable
from sandbox.jail import packages as of_the_jail

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SOURCE_BYTES = 100_000
_MODULE = re.compile(r"([A-Za-z_]\w*)(\.py|\.[^/]*\.so|\.so|/.*)")


@dataclass(frozen=True, slots=True)
class Package:
    """A package that programs can import.

    digest     SHA-256 of the files that programs get. Packages of the same name and version may differ, for example as
               builds for different machines
    requested  whether it was requested, rather than a dependency
    """

    name: str
    version: str
    digest: str
    requested: bool

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.digest[:12]})"


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """A package and its location.

    path       its .dist-info folder
    modules    the names under which it can be imported
    """

    package: Package
    path: str
    modules: tuple[str, ...]


def parse_requirements(requirements: Iterable[str]) -> list["Requirement"]:
    """Return the parsed names of packages, such as "pandas" or "scipy>=1.11". Raises ValueError for a wrong name."""
    requirements = tuple(requirements)
    if not requirements:  # then nothing but the standard library is needed
        return []
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError as error:
        raise ValueError(f"{error}. Type: pip install packaging") from error

    parsed = []
    for word in requirements:
        try:
            requirement = Requirement(word)
        except InvalidRequirement:
            raise ValueError(f"{word!r} is not a package: give a name, or a name and versions: scipy>=1.11") from None
        if requirement.url:
            raise ValueError(f"{word!r}: install it first, and then give its name")
        parsed.append(requirement)
    return parsed


def find(requirements: Iterable[str], folder: str = "") -> tuple[InstalledPackage, ...]:
    """Return the requested packages and their dependencies, sorted by name.

    requirements  names of packages, with versions if they matter: "pandas", "scipy>=1.11"
    folder        the folder that they are installed in; "" for the environment of this process

    Raises BackendUnavailable if one of them is missing or has another version, and ValueError for a wrong name.
    """
    found: dict[str, InstalledPackage] = {}
    waiting = [(requirement, "") for requirement in parse_requirements(requirements)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, needed_by = waiting.pop(0)
        name = _canonical(requirement.name)
        distribution = _distribution(requirement, needed_by, folder)
        if name not in found:
            found[name] = _installed(distribution, name, folder, requested=not needed_by)
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(needed, name) for needed in _needed(distribution, extra)]
    return tuple(found[name] for name in sorted(found))


def check_available(requirements: Iterable[str], available: Mapping[str, str], place: str, remedy: str) -> None:
    """Raise BackendUnavailable if a place lacks one of the requested packages.

    requirements  names of packages, as for `find`
    available     the packages that the place has: name -> version
    place         name of the place in the message
    remedy        a sentence for the message
    """
    for requirement in parse_requirements(requirements):
        version = available.get(_canonical(requirement.name))
        if version is None:
            has = f"it has {', '.join(sorted(available))}" if available else "it has none"
            raise BackendUnavailable(f"{place} has no package {requirement.name}; {has}. {remedy}")
        if not requirement.specifier.contains(version, prereleases=True):
            raise BackendUnavailable(f"{place} has {requirement.name} {version}, not {requirement}. {remedy}")


def describe_installed(folder: str) -> str:
    """Return all packages that are installed in a folder, as JSON for `parse_installed`."""
    names = sorted({_canonical(each.name) for each in metadata.distributions(path=[folder])})
    found = [each for each in find(names, folder) if each.package.name in names]
    return json.dumps([{**asdict(each), "path": Path(each.path).name} for each in found], separators=(",", ":"))


def parse_installed(text: str, folder: str, requirements: Iterable[str]) -> tuple[InstalledPackage, ...]:
    """Return the packages of a description by `describe_installed`.

    folder        the folder that they are installed in, in the image of the description
    requirements  names of the packages asked for
    """
    return tuple(
        InstalledPackage(
            package=mark_requested(Package(**each["package"]), requirements),
            path=f"{folder}/{each['path']}",
            modules=tuple(each["modules"]),
        )
        for each in json.loads(text)
    )


def mark_requested(package: Package, requirements: Iterable[str]) -> Package:
    """Return the package, marked as requested if it is."""
    asked_for = {_canonical(requirement.name) for requirement in parse_requirements(requirements)}
    return replace(package, requested=package.name in asked_for)


def fingerprint(packages: Iterable[Package]) -> str:
    """Return a hash of packages, their versions and their files; "" if there are none."""
    lines = sorted(f"{package.name} {package.version} {package.digest}" for package in packages)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def to_jail_packages(
    installed: Iterable[InstalledPackage], numpy: Mapping[str, str], sources: Mapping[str, str] | None = None
) -> of_the_jail.JailPackages:
    """Convert packages for the jail.

    numpy     folders of the numpy that programs get if it is not one of these packages: name -> path
    sources   the caller's own modules: name -> source; see the parameter `modules` of Sandbox

    Raises ValueError for a wrong name, or if the sources are too large.
    """
    sources = dict(sources or {})
    if wrong := [name for name in sources if not name.isidentifier()]:
        raise ValueError(f"the name of a module must be a Python name, not {wrong[0]!r}")
    if (n_bytes := len(json.dumps(sources))) > _SOURCE_BYTES:
        raise ValueError(f"modules must have less than {_SOURCE_BYTES:,} bytes of JSON, not {n_bytes:,}")
    installed = tuple(installed)
    modules = dict.fromkeys(module for each in installed for module in each.modules)
    asked_for = (module for each in installed if each.package.requested for module in each.modules)
    trees = {} if "numpy" in modules else dict(numpy)
    return of_the_jail.JailPackages(
        trees=trees,
        distributions=tuple(each.path for each in installed),
        modules=(*modules, *(["numpy"] if trees else []), *sources),
        preloaded_modules=(*(module for module in asked_for if not module.startswith("_")), *sources),
        sources=sources,
    )


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(requirement: "Requirement", needed_by: str, folder: str) -> metadata.Distribution:
    """Return the installed distribution that meets a requirement. Raises BackendUnavailable."""
    place = f"in {folder}" if folder else "in this environment"
    target = f" --target {folder}" if folder else ""
    wanted = f"{requirement.name}{requirement.specifier}"
    remedy = f"Type: pip install{target} {shlex.quote(wanted)}"
    reason = f", which {needed_by} needs," if needed_by else ""
    path = [folder] if folder else sys.path
    distribution: metadata.Distribution | None = next(
        iter(metadata.distributions(name=requirement.name, path=path)), None
    )
    if distribution is None:
        raise BackendUnavailable(f"the package {requirement.name}{reason} is not {place}. {remedy}")
    if not requirement.specifier.contains(distribution.version, prereleases=True):
        has = f"{requirement.name} {distribution.version}"
        raise BackendUnavailable(f"{has} is {place}, not {wanted}{reason.rstrip(',')}. {remedy}")
    return distribution


def _needed(distribution: metadata.Distribution, extra: str) -> list["Requirement"]:
    """Return the dependencies of a distribution on this platform, and those of an extra."""
    needed = parse_requirements(distribution.requires or [])
    return [each for each in needed if each.marker is None or each.marker.evaluate({"extra": extra})]


def _installed(distribution: metadata.Distribution, name: str, folder: str, *, requested: bool) -> InstalledPackage:
    """Describe a distribution. Raises BackendUnavailable if it does not list its files."""
    listed = [path for path in distribution.files or [] if path.name == "METADATA"]
    root = Path(str(distribution.locate_file(""))).resolve()
    path = next((root / one.parent for one in listed if one.parent.name.endswith(".dist-info")), None)
    names = of_the_jail.listed_files(str(path)) if path else []
    modules = {match[1] for match in map(_MODULE.fullmatch, names) if match}
    if path is None or not modules:
        raise BackendUnavailable(
            f"the package {name} does not list its files: it was installed in development mode, or without pip. Type: "
            f"pip install --target FOLDER {name}, and then give --packages-from FOLDER"
        )
    digest = hashlib.sha256()
    for file in names:
        content = (root / file).read_bytes()
        digest.update(f"{file}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    package = Package(name, distribution.version, digest.hexdigest(), requested)
    return InstalledPackage(package, str(path), tuple(sorted(modules)))
