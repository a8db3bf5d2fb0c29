"""The runner of recipes. Without steps after the build, the output folder is the dataset. With such steps, it holds

    OUT/dataset             the dataset built, with the solve rates of the models
    OUT/band                the problems within the band of solve rates
    OUT/filtered            the rows that fulfill the conditions
    OUT/parts/train, ...    the parts of the split
    OUT/exports/NAME        an export of the last of these; NAME/PART for each part of a split

A step skips its work if the manifest of its result has the same plan. So after an interruption, the same command
resumes; after a change of the recipe, it repeats only the steps with changed inputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from curate.dataset.output_folder import WORK
from curate.difficulty.band import SolveRateBand, filter_by_solve_rate
from curate.errors import CurateError, PlanMismatchError
from curate.exports._export import export, find_finished_export
from curate.manifest import MANIFEST, Manifest
from curate.operations.row_filter import write_filtered
from curate.operations.splitting import split
from curate.pipeline import build
from curate.progress import Progress, ignore_progress
from curate.recipe import STEPS, DifficultyConfig, Recipe, to_table
from curate.recipes.reader import make_export_options
from sandbox import SandboxOptions

Result = TypeVar("Result")


class DifficultySampler(Protocol):
    """A function that samples completions for a dataset. Callers pass it, since curate must not import train."""

    def __call__(self, dataset: Path, section: DifficultyConfig, sandbox: SandboxOptions) -> None: ...


@dataclass(frozen=True, slots=True)
class CompletedStep:
    """A completed step. result: manifest of the dataset or export; None for the solve rates, a table of the dataset"""

    name: str
    folder: Path
    result: Manifest | dict[str, Any] | None


def list_step_folders(recipe: Recipe, out: Path) -> list[tuple[str, Path]]:
    """Return the name and the output folder of each step, in order."""
    if not recipe.has_post_build_steps:
        return [("build", out)]
    steps = [("build", out / "dataset")]
    if recipe.difficulty is not None:
        steps.append(("difficulty", out / "dataset"))
        if recipe.difficulty.band:
            steps.append(("band", out / "band"))
    if recipe.filter is not None:
        steps.append(("filter", out / "filtered"))
    if recipe.split is not None:
        steps.append(("split", out / "parts"))
    return steps + [("export", out / "exports" / (section.name or section.to)) for section in recipe.exports]


def run(
    recipe: Recipe,
    out: Path,
    *,
    sandbox: SandboxOptions,
    sample_models: DifficultySampler,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> Iterator[CompletedStep]:
    """Run the recipe, and yield each completed step.

    out            output folder; `list_step_folders` has its subfolders
    sandbox        options of the sandbox
    sample_models  samples the models of the section [difficulty], if there is one
    overwrite      whether to replace results with another plan
    progress       progress callback

    Raises CurateError if a step fails. The results of earlier steps remain.
    """
    _check_layout(recipe, out)
    steps = dict(list_step_folders(recipe, out))
    dataset = steps["build"]
    if recipe.packages and not sandbox.packages:
        sandbox = replace(sandbox, packages=recipe.packages)
    locations = [(source.name, source.location_spec) for source in recipe.sources]
    against = [item.argument for item in recipe.against]
    common: dict[str, Any] = {"overwrite": overwrite, "progress": progress}
    manifest = _run_step(build, locations, dataset, recipe.build, against=against, sandbox=sandbox, **common)
    yield CompletedStep("build", dataset, manifest)
    if recipe.difficulty is not None:
        sample_models(dataset, recipe.difficulty, sandbox)
        yield CompletedStep("difficulty", dataset, None)
        if recipe.difficulty.band:
            before, dataset = dataset, steps["band"]
            band, table = SolveRateBand.parse(recipe.difficulty.band), _truncate_recipe("difficulty", recipe)
            manifest = _run_step(
                filter_by_solve_rate, before, dataset, band, recipe.difficulty.models, overwrite=overwrite, recipe=table
            )
            yield CompletedStep("band", dataset, manifest)
    if recipe.filter is not None:
        before, dataset = dataset, steps["filter"]
        manifest, _ = _run_step(
            write_filtered, before, recipe.filter.where, dataset, recipe=_truncate_recipe("filter", recipe), **common
        )
        yield CompletedStep("filter", dataset, manifest)
    parts = {"": dataset}
    if recipe.split is not None:
        manifests = _run_step(
            split, dataset, steps["split"], recipe.split, recipe=_truncate_recipe("split", recipe), **common
        )
        parts = {name: steps["split"] / name for name in manifests}
        for name, manifest in manifests.items():
            yield CompletedStep(f"split, {name}", parts[name], manifest)
    yield from _run_exports(recipe, parts, out, overwrite=overwrite, progress=progress)


def _run_step(step: Callable[..., Result], *arguments: Any, overwrite: bool, **options: Any) -> Result:
    """Call the function of a step. With `overwrite`, replaces a result only if its plan differs."""
    try:
        return step(*arguments, overwrite=False, **options)
    except PlanMismatchError:
        if not overwrite:
            raise
        return step(*arguments, overwrite=True, **options)


def _truncate_recipe(section: str, recipe: Recipe) -> dict[str, Any]:
    """Return the recipe up to a section, as stored in the manifest of that step's result."""
    without_steps = Recipe(recipe.sources)
    later = STEPS[STEPS.index(section) + 1 :]
    return to_table(replace(recipe, **{name: getattr(without_steps, name) for name in later}))


def _run_exports(
    recipe: Recipe, parts: dict[str, Path], out: Path, *, overwrite: bool, progress: Progress
) -> Iterator[CompletedStep]:
    for section in recipe.exports:
        for name, dataset in parts.items():
            folder = out / "exports" / (section.name or section.to) / name
            options = make_export_options(section)
            if section.name:
                options = replace(options, name="-".join(filter(None, (section.name, name))))
            manifest = find_finished_export(dataset, section.to, folder, options)
            if manifest is None:
                manifest = export(dataset, section.to, folder, options, overwrite=overwrite, progress=progress)
            yield CompletedStep(f"export to {section.to}", folder, manifest)


def _check_layout(recipe: Recipe, out: Path) -> None:
    """Raise CurateError if `out` is a dataset but the recipe needs one subfolder per step, or vice versa."""
    is_dataset = (out / MANIFEST).exists() or (out / WORK).exists()
    if recipe.has_post_build_steps and is_dataset:
        raise CurateError(
            f"{out} is a dataset, but this recipe has further steps and needs it at {out / 'dataset'}. Choose another "
            f"--out, or move it there: mv {out} {out}.built && mkdir {out} && mv {out}.built {out / 'dataset'}"
        )
    if not recipe.has_post_build_steps and not is_dataset and (out / "dataset").exists():
        raise CurateError(f"{out} holds the steps of another recipe. Choose another --out, such as {out / 'dataset'}.")
