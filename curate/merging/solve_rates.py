"""The solve rates of the rows that stay in a merged dataset."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from curate.difficulty import table
from curate.merging.inputs import MergeInput, input_index, unqualified_id


def merge_solve_rates(
    inputs: Sequence[MergeInput], removed: Set[str], kept_names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the solve rates of the rows that stay, by id and model.

    removed: names of the rows that were removed
    kept_names: for each of them, the name of the row that stays instead

    If a removed row is the same problem with the same tests as the row that stays, its rates count as well, for models
    that did not answer the other one.
    """
    rows = {dataset.qualified_id(id): row for dataset in inputs for row, id in enumerate(dataset.ids)}

    def asked(name: str) -> tuple[object, ...]:
        problem = inputs[input_index(name)].reader.load(rows[name])
        return problem.id, problem.statement, problem.starter_code, problem.tests.with_trials(())

    own: dict[tuple[str, str], table.Row] = {}
    others: dict[tuple[str, str], table.Row] = {}
    for dataset in inputs:
        for rate in table.read(dataset.location):
            name = dataset.qualified_id(rate["id"])
            if name in rows and name not in removed:
                own[rate["id"], rate["model"]] = rate
            elif (
                name in removed
                and unqualified_id(kept_names[name]) == rate["id"]
                and asked(name) == asked(kept_names[name])
            ):
                others.setdefault((rate["id"], rate["model"]), rate)
    merged = others | own
    return [merged[key] for key in sorted(merged)]
