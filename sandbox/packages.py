"""Installed packages for programs, and their dependencies, in this environment or a `pip install --target` folder."""

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
from sandbox.jail import packages as jail_packages

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MAX_SOURCE_BYTES = 100_000
_MODULE = re.compile(r"([A-Za-z_]\w*)(\.py|\.[^/]*\.so|\.so|/.*)")


@dataclass(frozen=True, slots=True)
class Package:
    """A package that programs can import.

    digest     SHA-256 of its files in the sandbox; it differs between builds of one version for different machines
    requested  whether the user requested it; otherwise it is a dependency
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

    path       path of its .dist-info folder
    modules    names of its top-level modules
    """

    package: Package
    path: str
    modules: tuple[str, ...]


def parse_requirements(requirements: Iterable[str]) -> list["Requirement"]:
    """Parse requirements such as "pandas" or "scipy>=1.11". Raises ValueError for an invalid one."""
    requirements = tuple(requirements)
    if not requirements:  # without an import of `packaging`, which may not be installed
        return []
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError as error:
        raise ValueError(f"{error}. Type: pip install packaging") from error

    parsed = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise ValueError(f"{text!r} is not a package name; pass a name such as pandas or scipy>=1.11") from None
        if requirement.url:
            raise ValueError(f"{text!r} is a URL; install the package first, and then pass its name")
        parsed.append(requirement)
    return parsed


def find(requirements: Iterable[str], folder: str = "") -> tuple[InstalledPackage, ...]:
    """Return the requested packages and their dependencies, sorted by name.

    requirements  names of packages, with optional version specifiers: "pandas", "scipy>=1.11"
    folder        their installation folder; "" for the environment of this process

    Raises BackendUnavailable if a package is missing or its version does not match, and ValueError for an invalid
    requirement.
    """
    found: dict[str, InstalledPackage] = {}
    pending = [(requirement, "") for requirement in parse_requirements(requirements)]
    seen: set[tuple[str, str]] = set()
    while pending:
        requirement, needed_by = pending.pop(0)
        name = _normalize_name(requirement.name)
        distribution = _find_distribution(requirement, needed_by, folder)
        if name not in found:
            found[name] = _describe(distribution, name, folder, requested=not needed_by)
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                pending += [(needed, name) for needed in _list_dependencies(distribution, extra)]
    return tuple(found[name] for name in sorted(found))


def check_available(requirements: Iterable[str], available: Mapping[str, str], location: str, remedy: str) -> None:
    """Raise BackendUnavailable if a requested package, or its version, is not available.

    requirements  see `find`
    available     the available packages: name -> version
    location      the location of these packages, for the message
    remedy        a sentence for the message
    """
    for requirement in parse_requirements(requirements):
        version = available.get(_normalize_name(requirement.name))
        if version is None:
            has = f"it has {', '.join(sorted(available))}" if available else "it has none"
            raise BackendUnavailable(f"{location} has no package {requirement.name}; {has}. {remedy}")
        if not requirement.specifier.contains(version, prereleases=True):
            raise BackendUnavailable(f"{location} has {requirement.name} {version}, not {requirement}. {remedy}")


def describe_installed(folder: str) -> str:
    """Describe the packages installed in a folder, as JSON for `parse_installed`."""
    names = sorted({_normalize_name(each.name) for each in metadata.distributions(path=[folder])})
    found = [each for each in find(names, folder) if each.package.name in names]
    return json.dumps([{**asdict(each), "path": Path(each.path).name} for each in found], separators=(",", ":"))


def parse_installed(text: str, folder: str, requirements: Iterable[str]) -> tuple[InstalledPackage, ...]:
    """Parse the JSON of `describe_installed`.

    folder        the installation folder, in the described image
    requirements  the requested packages
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
    """Return the package, with `requested` set if `requirements` names it."""
    requested_names = {_normalize_name(requirement.name) for requirement in parse_requirements(requirements)}
    return replace(package, requested=package.name in requested_names)


def compute_fingerprint(packages: Iterable[Package]) -> str:
    """Return a hash of packages, their versions and their files; "" without packages."""
    lines = sorted(f"{package.name} {package.version} {package.digest}" for package in packages)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def to_jail_packages(
    installed: Iterable[InstalledPackage], numpy: Mapping[str, str], sources: Mapping[str, str] | None = None
) -> jail_packages.JailPackages:
    """Convert packages to the type for worker processes.

    numpy     folders of numpy, used if numpy is not among the packages: name -> path
    sources   source of modules: name -> source; see the parameter `modules` of Sandbox

    Raises ValueError for an invalid module name, or if the sources are too large.
    """
    sources = dict(sources or {})
    if wrong := [name for name in sources if not name.isidentifier()]:
        raise ValueError(f"the name of a module must be a Python name, not {wrong[0]!r}")
    if (n_bytes := len(json.dumps(sources))) > _MAX_SOURCE_BYTES:
        raise ValueError(f"modules must have at most {_MAX_SOURCE_BYTES:,} bytes as JSON, not {n_bytes:,}")
    installed = tuple(installed)
    modules = dict.fromkeys(module for each in installed for module in each.modules)
    requested_names = (module for each in installed if each.package.requested for module in each.modules)
    trees = {} if "numpy" in modules else dict(numpy)
    return jail_packages.JailPackages(
        trees=trees,
        distributions=tuple(each.path for each in installed),
        modules=(*modules, *(["numpy"] if trees else []), *sources),
        preloaded_modules=(*(module for module in requested_names if not module.startswith("_")), *sources),
        sources=sources,
    )


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _find_distribution(requirement: "Requirement", needed_by: str, folder: str) -> metadata.Distribution:
    """Return the installed distribution of a requirement. Raises BackendUnavailable."""
    location = f"in {folder}" if folder else "in this environment"
    target = f" --target {folder}" if folder else ""
    specifier = f"{requirement.name}{requirement.specifier}"
    remedy = f"Type: pip install{target} {shlex.quote(specifier)}"
    reason = f", which {needed_by} needs," if needed_by else ""
    path = [folder] if folder else sys.path
    distribution: metadata.Distribution | None = next(
        iter(metadata.distributions(name=requirement.name, path=path)), None
    )
    if distribution is None:
        raise BackendUnavailable(f"the package {requirement.name}{reason} is not {location}. {remedy}")
    if not requirement.specifier.contains(distribution.version, prereleases=True):
        has = f"{requirement.name} {distribution.version}"
        raise BackendUnavailable(f"{has} is {location}, not {specifier}{reason.rstrip(',')}. {remedy}")
    return distribution


def _list_dependencies(distribution: metadata.Distribution, extra: str) -> list["Requirement"]:
    """Return the dependencies of a distribution on this platform, and those of an extra."""
    needed = parse_requirements(distribution.requires or [])
    return [each for each in needed if each.marker is None or each.marker.evaluate({"extra": extra})]


def _describe(distribution: metadata.Distribution, name: str, folder: str, *, requested: bool) -> InstalledPackage:
    """Describe a distribution. Raises BackendUnavailable if it does not list its files."""
    listed = [path for path in distribution.files or [] if path.name == "METADATA"]
    root = Path(str(distribution.locate_file(""))).resolve()
    path = next((root / one.parent for one in listed if one.parent.name.endswith(".dist-info")), None)
    names = jail_packages.list_distribution_files(str(path)) if path else []
    modules = {match[1] for match in map(_MODULE.fullmatch, names) if match}
    if path is None or not modules:
        raise BackendUnavailable(
            f"the package {name} does not list its files: it was installed in development mode, or without pip. Type: "
            f"pip install --target FOLDER {name}, and then pass --packages-from FOLDER"
        )
    digest = hashlib.sha256()
    for file in names:
        content = (root / file).read_bytes()
        digest.update(f"{file}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    package = Package(name, distribution.version, digest.hexdigest(), requested)
    return InstalledPackage(package, str(path), tuple(sorted(modules)))
