"""Make a limited number of wrong programs from a right one, spread over the kinds of mistakes and the places.

The same reference, tests and seed give the same mutants.
"""

import ast
import random
import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from types import ModuleType

from curate.strength.mutants import (
    comparison,
    constant,
    dropped_branch,
    dropped_statement,
    early_return,
    hard_coded,
    off_by_one,
    swapped_operator,
)
from curate.strength.mutants._node_positions import NodePosition, mutable_nodes
from sandbox import Suite

MAX_MUTANTS = 24  # each costs about as much as judging the reference; more mutants add precision rather than insight

_ATTRIBUTE = re.compile(r"\.([A-Za-z_]\w*)")
_KINDS = (off_by_one, comparison, dropped_branch, swapped_operator, dropped_statement, constant, early_return)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program that should be wrong, and the kind of mistake in it, named after a file in curate/strength/mutants."""

    kind: str
    source: str


def mutants(
    reference: str, suite: Suite, *, n_shown_cases: int, seed: int, max_count: int = MAX_MUTANTS
) -> list[Mutant]:
    """Return at most `most` distinct mutants of a Python program; none if it cannot be parsed.

    n_shown_cases  number of leading cases of the suite that the statement reveals; 0: not known
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(reference)
        return _mutants(tree, suite, n_shown_cases, seed, max_count)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _mutants(tree: ast.Module, suite: Suite, shown: int, seed: int, max_count: int) -> list[Mutant]:
    original = ast.unparse(tree)
    kinds = {source: _name(hard_coded) for source in hard_coded.programs(suite, shown)}
    for kind, place, node in _mistakes(tree, _used_names(suite), random.Random(f"{seed} {original}")):
        if len(kinds) >= max_count:
            break
        with place.replace_with(node):
            source = ast.unparse(tree)
        if source != original:
            kinds.setdefault(source, _name(kind))
    return [Mutant(kind, source) for source, kind in kinds.items()]


def _used_names(suite: Suite) -> tuple[str, ...]:
    """Return the names that the tests use: those that they call, and those of methods."""
    if suite.assertions is None:
        return suite.called_names
    attributes = {name for case in suite.cases for name in _ATTRIBUTE.findall(case.input)}
    return (*suite.called_names, *sorted(attributes))


def _mistakes(
    tree: ast.Module, called: Collection[str], rng: random.Random
) -> Iterator[tuple[ModuleType, NodePosition, ast.AST]]:
    """Yield one mistake of each kind in turn.

    Within a kind, every place gets a first mistake before any place gets a second.
    """
    everywhere = list(mutable_nodes(tree, called))
    turns: list[list[tuple[int, NodePosition, ast.AST]]] = []
    for kind in _KINDS:
        mistakes = []
        for place in everywhere:
            nodes = list(kind.mutate(place.node))
            rng.shuffle(nodes)
            mistakes += [(turn, place, node) for turn, node in enumerate(nodes)]
        rng.shuffle(mistakes)
        turns.append(sorted(mistakes, key=lambda mistake: mistake[0]))
    for mistakes_of_turn in zip_longest(*turns):
        for kind, mistake in zip(_KINDS, mistakes_of_turn, strict=True):
            if mistake is not None:
                yield kind, *mistake[1:]


def _name(kind: ModuleType) -> str:
    return kind.__name__.rpartition(".")[2]
