"""The packages of a dataset's build, which the programs of the dataset may import."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from curate.dataset import output_folder
from curate.dataset.location import download_dataset
from curate.errors import CurateError
from curate.json_records import from_json
from curate.manifest import Plan
from sandbox import Package, SandboxOptions

log = logging.getLogger(__name__)


def add_build_packages(sandbox: SandboxOptions, dataset: str | Path) -> SandboxOptions:
    """Return the options. If they name no packages, add the packages of the dataset's build.

    dataset  folder or Hub id; data that curate did not build needs no packages

    Logs a warning for each package that differs from the build's package. Raises BackendUnavailable if one is missing.
    """
    built_with = _find_packages(dataset)
    if built_with and not sandbox.packages:
        requested = (package.name for package in built_with if package.requested)
        sandbox = replace(sandbox, packages=tuple(requested))
    available = {package.name: package for package in sandbox.find_packages()} if built_with else {}
    for package in built_with:
        if available.get(package.name, package).digest != package.digest or package.name not in available:
            log.warning(
                "%s was built with the package %s, but programs now get %s; verdicts may differ",
                dataset,
                package,
                available.get(package.name, "none"),
            )
    return sandbox


def _find_packages(dataset: str | Path) -> tuple[Package, ...]:
    try:
        manifest = output_folder.read_manifest(download_dataset(dataset) or Path(dataset).expanduser())
    except CurateError:
        return ()
    built = manifest.build.packages if manifest.build is not None else ()
    return tuple({package.name: package for package in (*_find_plan_packages(manifest.plan), *built)}.values())


def _find_plan_packages(plan: Plan) -> Iterator[Package]:
    for member in plan.datasets:
        yield from _find_plan_packages(member.plan)
    for package in plan.configuration.get("packages", ()):
        yield from_json(Package, package)
