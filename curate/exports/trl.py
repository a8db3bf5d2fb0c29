"""Write train.parquet for TRL: a conversation in `prompt`, and columns that are keyword arguments of reward functions.

`rewards.trl.code_reward` judges by the column `tests`, which has complete suites: cases, checker, referee and limits.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from curate.exports._export import ExportOptions
from curate.exports._format import conversation, conversation_type, template_arguments_note, write_parquet
from curate.problem import Problem
from curate.prompt import PromptFormat

EXCLUSION_REASONS: dict[str, str] = {}
_README = """---
configs:
- config_name: default
  data_files: train.parquet
---

# Problems for TRL

`prompt` is a conversation, `tests` the JSON text of a `sandbox.Suite`; also `id`, `source`, `reference`, `licence`.

```python
from datasets import load_dataset
from rewards.trl import code_reward  # of curate-code; None where the sandbox failed
from trl import GRPOTrainer

trainer = GRPOTrainer(MODEL, reward_funcs=code_reward, train_dataset=load_dataset(DIR, split="train"))
```
"""


def unsupported_reason(problem: Problem, options: ExportOptions) -> str | None:
    return None


def write(problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
    import pyarrow as pa

    texts = ("id", "source", "tests", "reference", "licence")
    schema = pa.schema({"prompt": conversation_type(), **{name: pa.string() for name in texts}})
    write_parquet(_rows(problems, options.prompt), schema, folder / "train.parquet")
    arguments = dict(options.prompt.template_arguments)
    more = template_arguments_note(options.prompt, f"Give TRL `GRPOConfig(chat_template_kwargs={arguments!r})`.")
    (folder / "README.md").write_text(_README + more)


def _rows(problems: Iterable[Problem], prompt: PromptFormat) -> Iterator[tuple[dict[str, object], int]]:
    for problem in problems:
        tests = problem.tests.to_json()
        yield (
            {
                "prompt": conversation(problem, prompt),
                "id": problem.id,
                "source": problem.source,
                "tests": tests,
                "reference": problem.reference and problem.reference.source,
                "licence": problem.licence,
            },
            len(tests),
        )
