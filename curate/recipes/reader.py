"""A reader of recipes: a TOML file, a bundled recipe, or the manifest of a finished dataset."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from curate.dataset import output_folder
from curate.difficulty.band import SolveRateBand
from curate.errors import CurateError
from curate.exports._export import ExportOptions, list_targets
from curate.json_records import UnknownFieldError
from curate.manifest import MANIFEST
from curate.operations.condition import parse
from curate.operations.splitting import parse_size
from curate.prompt import read_prompt
from curate.reading.location import HUB_ID
from curate.reading.text_files import read_toml_text
from curate.reading.values import shorten
from curate.recipe import EvaluationSetConfig, ExportConfig, Recipe, SourceConfig, from_table
from curate.recipes.toml_writer import to_toml
from curate.trust import TrustPolicy

_HERE = Path(__file__).parent
_HEADING = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?")


def list_bundled_recipes() -> list[str]:
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def read_recipe(name_or_path: str) -> Recipe:
    """Return a recipe, with paths relative to the working folder. Raises CurateError if it is missing or invalid.

    name_or_path: one of list_bundled_recipes(), a TOML file, or the folder or the manifest.json of a finished dataset
    """
    path = _find_path(name_or_path)
    if path.suffix == ".json" or path.is_dir():
        recipe = _parse_recipe(name_or_path, _read_dataset_table(path), "")
    else:
        text = _read_text(path)
        recipe = _resolve_locations(path.parent, _parse_recipe(name_or_path, _parse_toml(name_or_path, text), text))
    _check_sections(name_or_path, recipe)
    return recipe


def replace_locations(
    recipe: Recipe, sources: Sequence[SourceConfig], against: Sequence[EvaluationSetConfig], *, limit: int | None
) -> Recipe:
    """Return the recipe with new locations of some sources and evaluation sets, and a new limit of rows.

    sources  sources of the recipe with new locations
    against  evaluation sets of the recipe with new locations
    limit    maximum number of problems to read from each source; None for the recipe's limit

    The options and windows of the recipe remain valid unless the new ones override them. Raises CurateError for a
    source or set that the recipe lacks.
    """
    for kind, new, old in (("source", sources, recipe.sources), ("evaluation set", against, recipe.against)):
        names = [entry.name for entry in old]
        for entry in new:
            if entry.name not in names:
                listed = ", ".join(names) or "none"
                raise CurateError(f"the recipe has no {kind} {entry.name}, only {listed}. Write it into the recipe.")
    new_sources = {source.name: source for source in sources}
    new_sets = {item.name: item for item in against}

    def relocate(source: SourceConfig) -> SourceConfig:
        new_source = new_sources.get(source.name)
        if new_source is None:
            return source
        return replace(new_source, options={**_select_portable_options(source), **new_source.options})

    return replace(
        recipe,
        sources=tuple(map(relocate, recipe.sources)),
        against=tuple(
            replace(new_set, window=new_set.window or item.window) if (new_set := new_sets.get(item.name)) else item
            for item in recipe.against
        ),
        build=recipe.build if limit is None else replace(recipe.build, limit=limit),
    )


def _select_portable_options(source: SourceConfig) -> dict[str, Any]:
    """Return the options of a source that apply at another location: all but the pattern of file names."""
    return {name: value for name, value in source.options.items() if name != "files"}


def read_recipe_text(name_or_path: str) -> str:
    """Return the text of a recipe's file, or the recipe in a dataset's manifest as TOML.

    name_or_path: as for `read_recipe`

    Raises CurateError if there is no such recipe.
    """
    path = _find_path(name_or_path)
    return to_toml(_read_dataset_table(path)) if path.suffix == ".json" or path.is_dir() else _read_text(path)


def _find_path(name_or_path: str) -> Path:
    # A bundled recipe takes precedence over a folder of the same name.
    if name_or_path in list_bundled_recipes():
        return _HERE / f"{name_or_path}.toml"
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path
    raise CurateError(
        f"{name_or_path}: no such recipe. Give a TOML file, a finished dataset, or one of "
        f"{', '.join(list_bundled_recipes())}."
    )


def _read_text(path: Path) -> str:
    try:
        return read_toml_text(path)
    except OSError as error:
        raise CurateError(f"{path}: not a readable text file ({shorten(error)}).") from None


def _parse_toml(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CurateError(f"{name}: not TOML ({shorten(error)}).") from None


def _read_dataset_table(path: Path) -> dict[str, Any]:
    folder = path.parent if path.name == MANIFEST else path
    recipe = output_folder.read_manifest(folder).recipe
    if recipe is None:
        raise CurateError(
            f"{folder}: its manifest has no recipe, because an earlier version, custom stages, or steps that no recipe "
            "can express made the dataset. The manifest's `plan` describes them."
        )
    return dict(recipe)


def _parse_recipe(name: str, table: Mapping[str, Any], text: str) -> Recipe:
    """Return the recipe in a table. Raises CurateError, with the line of an unknown key.

    name: name of the recipe, for error messages
    text: text of the file; empty for a recipe in a manifest
    """
    try:
        recipe = from_table({"sources": [], **table})
    except UnknownFieldError as error:
        path = re.sub(r"\[\d+\]", "", error.path).split(".")[1:]
        line = next(_find_lines(text, error.field, path), None)
        prefix, where = f"line {line}: " if line else "", f"[{'.'.join(path)}]" if path else "a recipe"
        close = get_close_matches(error.field, error.valid_fields, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        known = ", ".join(error.valid_fields)
        raise CurateError(f"{name}: {prefix}unknown key {error.field} in {where}.{hint} Known are {known}.") from None
    except ValueError as error:
        raise CurateError(f"{name}: {error}.") from None
    if not recipe.sources:
        raise CurateError(f'{name}: no source. Write [[sources]] with lines such as name = "taco", location = "PATH".')
    return recipe


def _find_lines(text: str, key: str, path: Sequence[str]) -> Iterator[int]:
    """Yield the line numbers, from 1, of a key in a section: of its values, and of headings of tables.

    path: keys of the section, from the root
    """
    heading: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _HEADING.match(line):
            heading = [part.strip(" \"'") for part in match[1].split(".")]
            if heading[: len(path) + 1] == [*path, key]:
                yield number
        elif heading == list(path) and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            yield number


def _resolve_locations(folder: Path, recipe: Recipe) -> Recipe:
    def resolve(location: str) -> str:
        path_or_id, mark, options = location.partition("?")
        path = folder / Path(path_or_id).expanduser()
        return f"{path}{mark}{options}" if path.exists() or not HUB_ID.fullmatch(path_or_id) else location

    return replace(
        recipe,
        sources=tuple(replace(source, location=resolve(source.location)) for source in recipe.sources),
        against=tuple(replace(item, location=item.location and resolve(item.location)) for item in recipe.against),
    )


def _check_sections(name: str, recipe: Recipe) -> None:
    """Raise CurateError for values that a later step would reject after hours of work."""
    section = ""
    try:
        if recipe.difficulty is not None:
            section = "difficulty"
            if recipe.difficulty.band:
                SolveRateBand.parse(recipe.difficulty.band)
            if not recipe.difficulty.models:
                raise ValueError("models must name at least one model")
            TrustPolicy.from_choices(recipe.difficulty.include)
            read_prompt(recipe.difficulty.prompt)
        if recipe.filter is not None:
            section = "filter"
            if not recipe.filter.where:
                raise ValueError("where must have at least one condition")
            for condition in recipe.filter.where:
                parse(condition, recipe.difficulty.models if recipe.difficulty else ())
        if recipe.split is not None:
            section = "split"
            if not recipe.split.sizes:
                raise ValueError("give validation, test or both")
            for size in recipe.split.sizes.values():
                parse_size(str(size))
        section = "exports"
        _check_exports(recipe.exports)
    except (CurateError, ValueError) as error:
        raise CurateError(f"{name}: [{section}]: {error}") from None


def _check_exports(exports: Sequence[ExportConfig]) -> None:
    names = [export.name or export.to for export in exports]
    for export, name in zip(exports, names, strict=True):
        if export.to not in list_targets():
            raise ValueError(f"to = {export.to!r} is not one of {', '.join(list_targets())}")
        if names.count(name) > 1 or not re.fullmatch(r"[\w.-]*\w[\w.-]*", name):
            raise ValueError(f"name = {name!r} is repeated, or not a folder name; give each export a unique name")
        make_export_options(export)


def make_export_options(export: ExportConfig) -> ExportOptions:
    """Return the options of an export. Raises CurateError or ValueError if they are invalid."""
    return ExportOptions(
        select=export.select,
        budget=export.budget,
        include=export.include,
        verl_data_source=export.verl_data_source,
        prompt=read_prompt(export.prompt),
    )
