"""`curate build-dataset`"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.options import add_against_option, dedup_option
from curate.commands.printing import print_contamination, print_funnel, print_hashes, read_rejected_rows
from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra

if TYPE_CHECKING:
    from curate.manifest import Manifest
    from curate.recipe import DifficultyConfig, Recipe
    from sandbox import SandboxOptions


@click.command("build-dataset")
@click.argument("recipe", required=False, metavar="[RECIPE]")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=LOCATION",
    help="A source (see `curate sources`) and its file, folder, Hub id or Hub id@revision. Append options, as in "
    "'livecodebench=PATH?release=v5&from=2024-08-01', or pass a TOML file with the location and the options. "
    "Repeatable; of two equally good duplicates, the one from the first source stays. With a RECIPE: another location "
    "for one of its sources.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Output folder; required except with --show-recipe.  [default: none]",
)
@click.option(
    "--min-tests",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Minimum number of distinct tests per problem. 0 also keeps problems without tests, which cannot be verified.",
)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Maximum number of solutions to execute per problem.",
)
@click.option(
    "--cross-checks",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Number of further solutions to execute on all tests of a verified problem, to compare their outputs.",
)
@click.option(
    "--mutants",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    help="Number of mutants to make from each reference, to measure the strength of its tests. 0 skips this.",
)
@click.option(
    "--min-test-strength",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Minimum share of the mutants that the tests of a problem must kill.  [default: any]",
)
@click.option(
    "--reference-language",
    "reference_languages",
    multiple=True,
    default=["python"],
    show_default=True,
    metavar="NAME",
    help="Language of solutions to execute (python, cpp). Repeatable; Python ones are tried first.",
)
@click.option(
    "--no-reference",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="Keep or drop problems from sources that publish no solutions.",
)
@dedup_option
@add_against_option(required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Read only the first N problems of each source.  [default: all]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the programs' random numbers and hashes.")
@options.add_sandbox_options
@click.option("--dry-run", is_flag=True, help="Read and filter only; execute and write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace an existing dataset in the folder.")
@click.option("--show-recipe", is_flag=True, help="Print RECIPE, or the options as a recipe, in TOML.")
def command(
    recipe: str | None,
    sources: tuple[str, ...],
    out: Path | None,
    against: tuple[str, ...],
    sandbox: "SandboxOptions",
    dry_run: bool,
    overwrite: bool,
    show_recipe: bool,
    **build_options: Any,
) -> None:
    """Turn raw problems into a verified, deduplicated dataset.

    RECIPE is a TOML file with sources, options and further steps up to exports; the name of a bundled recipe; or a
    finished dataset, whose manifest has its recipe. Without one, --source and the options below describe the build.

    Progress is saved: run the same command to continue after an interruption.
    """
    require_extra("data")
    from curate.errors import CurateError
    from curate.recipes.reader import read_recipe_text

    if recipe is None and not sources:
        raise click.UsageError("no input; pass a RECIPE, or at least one --source NAME=LOCATION")
    if recipe is not None:
        _refuse_build_options(build_options)
    if show_recipe and recipe is not None and not (sources or against or build_options["limit"]):
        with report_user_errors(CurateError):
            click.echo(read_recipe_text(recipe), nl=False)
        return
    with report_user_errors(CurateError, ValueError, OSError):
        merged = _build_recipe(recipe, sources, against, build_options, sandbox.packages)
    if show_recipe:
        from curate.recipe import to_table
        from curate.recipes.toml_writer import to_toml

        click.echo(to_toml(to_table(merged)), nl=False)
        return
    if out is None:
        raise click.UsageError("Missing option '--out'.")
    if dry_run:
        _print_dry_run(merged, out)
        return
    sys.exit(0 if _run_recipe(merged, out, sandbox, overwrite=overwrite) else 1)


def _refuse_build_options(build_options: dict[str, Any]) -> None:
    """Raise UsageError for options on the command line that belong in the recipe."""
    context = click.get_current_context()
    for name in build_options.keys() - {"limit"}:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = next(option.opts[0] for option in context.command.params if option.name == name)
            raise click.UsageError(f"{option} conflicts with the recipe. Write it into the recipe: [build] {name}")


def _build_recipe(
    name_or_path: str | None,
    sources: Sequence[str],
    against: Sequence[str],
    build_options: dict[str, Any],
    packages: tuple[str, ...],
) -> "Recipe":
    """Return RECIPE with the changes from the options; without RECIPE, a recipe from the options alone.

    name_or_path   RECIPE; None if missing
    sources        values of --source
    against        values of --against
    build_options  values of the options for [build], by name
    packages       packages that programs may import

    Raises CurateError or ValueError for invalid values.
    """
    from curate.options import BuildOptions
    from curate.reading.location import split_location
    from curate.recipe import EvaluationSetConfig, Recipe, SourceConfig
    from curate.recipes.reader import read_recipe, replace_locations

    locations = []
    for name, location in map(_split_source, sources):
        path_or_id, source_options = split_location(location)
        locations.append(SourceConfig(name, path_or_id, source_options))
    sets = [EvaluationSetConfig.parse(argument) for argument in against]
    if name_or_path is None:
        return Recipe(tuple(locations), packages, BuildOptions(**build_options), tuple(sets))
    return replace_locations(read_recipe(name_or_path), locations, sets, limit=build_options["limit"])


def _print_dry_run(recipe: "Recipe", out: Path) -> None:
    """Read and filter the rows; print the counts and the further steps."""
    from curate.dataset.writer import make_rejected_row
    from curate.errors import CurateError
    from curate.pipeline import dry_run
    from curate.recipes.runner import list_step_folders

    locations = [(source.name, source.location_spec) for source in recipe.sources]
    against = [item.argument for item in recipe.against]
    with report_user_errors(CurateError, OSError), ProgressBar() as progress:
        counts, rejections = dry_run(locations, recipe.build, against=against, progress=progress)
    print_funnel(counts, map(make_rejected_row, rejections))
    if recipe.has_post_build_steps:
        click.echo()
        for name, folder in list_step_folders(recipe, out):
            click.echo(f"{name:<12}{folder}")


def _run_recipe(recipe: "Recipe", out: Path, sandbox: "SandboxOptions", *, overwrite: bool) -> bool:
    """Run the steps of a recipe and print their results. Return False, without further steps, if a dataset is empty."""
    from curate.errors import CurateError
    from curate.manifest import Manifest
    from curate.recipes.runner import run

    interrupted = f"progress is saved in {out}; run the same command to continue"
    # Reading inputs and writing folders raise OSError; sampling raises the exceptions of training.
    kinds: list[type[Exception]] = [CurateError, OSError, *_import_training_errors(recipe)]
    with report_user_errors(*kinds, interrupt_message=interrupted), ProgressBar() as progress:
        steps = run(recipe, out, sandbox=sandbox, sample_models=_sample_models, overwrite=overwrite, progress=progress)
        for step in steps:
            progress.close()
            if isinstance(step.result, Manifest):
                _print_dataset(step.name, step.folder, step.result)
                if not step.result.n_kept:
                    return False
            elif step.result is not None:
                counts = step.result["counts"]
                click.echo(f"{step.name}: {counts['exported']} of {counts['rows']} problems in {step.folder}")
    return True


def _print_dataset(step: str, folder: Path, manifest: "Manifest") -> None:
    """Print the number of problems in the dataset of a step; for the build, also the funnel."""
    label = f"{step}: "
    if step == "build":
        label = ""
        print_funnel(manifest.counts, read_rejected_rows(folder))
        if manifest.decontamination:
            click.echo()
            print_contamination(manifest.decontamination)
        click.echo()
    click.echo(f"{label}{manifest.n_kept} problems in {folder}")
    if not manifest.n_kept:
        click.echo("Error: no problem remains; the reasons are above and in the config `rejected`.", err=True)
    print_hashes(manifest)


def _import_training_errors(recipe: "Recipe") -> list[type[Exception]]:
    if recipe.difficulty is None:
        return []
    from sandbox import SandboxError

    return [SandboxError, import_module("train.errors").TrainError]


def _sample_models(dataset: Path, section: "DifficultyConfig", sandbox: "SandboxOptions") -> None:
    """Sample the models of a recipe. Loads the function by importlib, because curate must not import `train`."""
    names = ("k", "n", "temperature", "top_p", "max_tokens", "seed")
    settings = {name: value for name in names if (value := getattr(section, name)) is not None}
    if section.languages:
        settings["languages"] = section.languages
    import_module("train.commands.difficulty").sample_models(
        dataset,
        section.models,
        settings,
        section.base_url or None,
        section.include,
        section.prompt,
        section.engine,
        sandbox,
    )


def _split_source(source: str) -> tuple[str, str]:
    name, equals, location = source.partition("=")
    if not (name and equals and location):
        raise click.BadParameter(f"{source!r} is not NAME=LOCATION, such as taco=data/taco", param_hint="--source")
    return name, location
