"""agentica-org/DeepScaleR-Preview-Dataset: problems of AIME, AMC, Omni-MATH and STILL with their answers."""

from functools import partial

from curate.problem import Problem
from curate.reading.tables import Row
from curate.reading.values import optional_text
from curate.sources import make_question, read_problems

TITLE = "DeepScaleR-Preview"
HUB_ID = "agentica-org/DeepScaleR-Preview-Dataset"
LICENCE = "mit"
SIZE_DESCRIPTION = "some 40,300 math problems"
DEFECTS = "no ids and no origins; solutions missing; answers to the last part only; figures missing"
COLUMNS = ("problem", "answer")


def _parse_row(id: str, row: Row) -> Problem:
    return make_question(id, optional_text(row["answer"]), LICENCE, statement=row["problem"])


read = partial(read_problems, "deepscaler", COLUMNS, (), _parse_row)
