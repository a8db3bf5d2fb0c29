"""A recipe: all inputs and options of a dataset, from raw rows to exports, as a TOML file:

    [[sources]]                                # as --source NAME=LOCATION; with options of the source
    name = "taco"
    location = "BAAI/TACO"

    [build]                                    # the options of `curate build-dataset`
    min_tests = 5

    [[against]]                                # as --against NAME:WINDOW=LOCATION
    name = "lcb"
    window = "2024-08-01..2025-02-01"

    [difficulty]                               # as `curate difficulty`, with tables [difficulty.prompt] and
    models = ["Qwen/Qwen2.5-Coder-7B-Instruct"]           # [difficulty.engine]
    band = "0.125:0.5"

    [filter]                                   # as `curate filter`
    where = ["n_tests >= 8"]

    [split]                                    # as `curate split`
    validation = 0.1

    [[exports]]                                # as `curate export`
    to = "trl"

The manifest of a dataset has its recipe, as a table of the same form.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from curate.json_records import UnknownFieldError, from_json, to_json
from curate.options import BuildOptions
from curate.reading.location import LocationSpec, split_location
from curate.reading.tables import TableFiles as Files

Table = dict[str, Any]
# The sections after the build, in running order.
STEPS = ("difficulty", "filter", "split", "exports")


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """A source: its name, its file, folder or Hub id, and its options."""

    name: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def location_spec(self) -> LocationSpec:
        """The location and the options, for `curate.build`."""
        return {"location": self.location, **self.options}


@dataclass(frozen=True, slots=True)
class EvaluationSetConfig:
    """An evaluation set whose items no row may contain, with a location, a window FROM..TO or both."""

    name: str
    location: str = ""
    window: str = ""

    @classmethod
    def parse(cls, argument: str) -> "EvaluationSetConfig":
        """Parse NAME=LOCATION, NAME:FROM..TO=LOCATION or NAME:FROM..TO."""
        head, _, location = argument.partition("=")
        name, _, window = head.partition(":")
        return cls(name, location, window)

    @property
    def argument(self) -> str:
        """The set in the form of --against."""
        return self.name + (f":{self.window}" if self.window else "") + (f"={self.location}" if self.location else "")


@dataclass(frozen=True, slots=True)
class DifficultyConfig:
    """Models to sample, with the settings of `curate difficulty`.

    band: the band of solve rates to keep, as MIN:MAX; empty: all
    """

    models: tuple[str, ...]
    band: str = ""
    base_url: str = ""
    k: int | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    languages: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    prompt: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Conditions that the rows must fulfil."""

    where: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """The options of a split.

    validation, test  size of the part: a share of the rows (float), or a number of rows (int); None: no such part.
                      The part `train` gets all other rows
    similarity        minimum Jaccard similarity of word 5-grams at which two statements must be in the same part
    seed              seed of the random assignment
    """

    validation: int | float | None = None
    test: int | float | None = None
    similarity: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.similarity <= 1:
            raise ValueError(f"similarity must be above 0 and at most 1, not {self.similarity}")

    @property
    def sizes(self) -> dict[str, float | int]:
        """The sizes of the parts other than `train`."""
        sizes = {"validation": self.validation, "test": self.test}
        return {name: size for name, size in sizes.items() if size is not None}


@dataclass(frozen=True, slots=True)
class ExportConfig:
    """The options of `curate export`. to: the export format; name: folder in exports/, empty for the format's name"""

    to: str
    name: str = ""
    select: str = "strongest"
    budget: int | None = None
    include: tuple[str, ...] = ()
    verl_data_source: str = "taco"
    prompt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe. The step of a None or empty section is skipped.

    packages: packages that programs may import, as --package names them
    """

    sources: tuple[SourceConfig, ...]
    packages: tuple[str, ...] = ()
    build: BuildOptions = field(default_factory=BuildOptions)
    against: tuple[EvaluationSetConfig, ...] = ()
    difficulty: DifficultyConfig | None = None
    filter: FilterConfig | None = None
    split: SplitConfig | None = None
    exports: tuple[ExportConfig, ...] = ()

    @property
    def has_post_build_steps(self) -> bool:
        """True if a step (difficulty, filter or split) follows the build."""
        return any(getattr(self, name) for name in STEPS)


def from_table(table: Mapping[str, Any]) -> Recipe:
    """Parse a recipe. Raises UnknownFieldError for an unknown key, or ValueError with the key of an invalid value."""
    values = dict(table)
    if isinstance(values.get("sources"), list):
        values["sources"] = [_nest_options(source) for source in values["sources"]]
    try:
        return from_json(Recipe, values)
    except UnknownFieldError:
        raise
    except ValueError as error:
        raise ValueError(str(error).replace("Recipe: ", "").replace("Recipe.", "")) from None


def _nest_options(source: Any) -> Any:
    if not isinstance(source, Mapping):
        return source
    named = {name: source[name] for name in ("name", "location") if name in source}
    options = {name: value for name, value in source.items() if name not in named}
    # Dates of TOML become strings, which JSON can encode and which equal the options of the command line.
    return {**named, "options": json.loads(json.dumps(options, default=str))}


def to_table(recipe: Recipe) -> Table:
    """Return the recipe as a table without empty values. `from_table` is the inverse."""
    table: Table = _omit_empty(to_json(recipe))
    for source in table["sources"]:
        source |= source.pop("options", {})
    return table


def _omit_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _omit_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item not in ("", [], {})}
    return [_omit_empty(item) for item in value] if isinstance(value, list) else value


def create_build_recipe(
    locations: Sequence[tuple[str, LocationSpec]],
    tables: Sequence[tuple[str, Files]],
    options: BuildOptions,
    against: Sequence[str],
    packages: Sequence[str],
) -> Table:
    """Return the recipe of a build with these options. Data from the Hub is pinned to its revision.

    locations  (name, location) of each source
    tables     files of each source, in the same order
    options    options of the build
    against    evaluation sets, in the form of --against
    packages   packages that programs may import
    """
    sources = []
    for (name, location), (_, files) in zip(locations, tables, strict=True):
        path_or_id, source_options = split_location(location)
        pinned = f"{path_or_id.partition('@')[0]}@{files.revision}" if files.revision else path_or_id
        sources.append(SourceConfig(name, pinned, source_options))
    return to_table(Recipe(tuple(sources), tuple(packages), options, tuple(map(EvaluationSetConfig.parse, against))))


def add_step(recipe: Mapping[str, Any] | None, section: str, content: Any) -> Table | None:
    """Return the recipe with another step; None if no recipe can express this order of steps."""
    if recipe is None or any(name in recipe for name in STEPS[STEPS.index(section) :]):
        return None
    return {**recipe, section: _omit_empty(to_json(content))}


def add_evaluation_sets(recipe: Mapping[str, Any] | None, against: Sequence[str]) -> Table | None:
    """Return the recipe with more evaluation sets; None if a step follows the build."""
    if recipe is None or any(name in recipe for name in STEPS):
        return None
    sets = [_omit_empty(to_json(EvaluationSetConfig.parse(argument))) for argument in against]
    return {**recipe, "against": [*recipe.get("against", ()), *sets]}
