"""The export target trl: train.parquet, with a conversation in `prompt` and the arguments of reward functions.

The column `tests` has complete suites, for `rewards.trl.code_reward`.
"""

from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

from curate.exports._export import (
    ExportOptions,
    collect_common_values,
    get_conversation_type,
    make_conversation,
    write_parquet,
    write_readme,
)
from curate.problem import Problem

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


def find_unsupported_reason(problem: Problem, options: ExportOptions) -> str | None:
    return None


def write(problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
    import pyarrow as pa

    texts = ("id", "source", "tests", "reference", "licence")
    schema = pa.schema({"prompt": get_conversation_type(), **{name: pa.string() for name in texts}})
    rows = (
        {
            **collect_common_values(problem),
            "prompt": make_conversation(problem, options.prompt),
            "tests": problem.tests.to_json(),
        }
        for problem in problems
    )
    write_parquet(rows, schema, folder / "train.parquet", tests=itemgetter("tests"))
    arguments = dict(options.prompt.template_arguments)
    write_readme(folder, _README, options.prompt, f"Pass `GRPOConfig(chat_template_kwargs={arguments!r})` to TRL.")
