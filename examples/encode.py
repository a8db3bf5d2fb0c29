"""Render examples/problems into the native encodings of TACO, SYNTHETIC-1 and LiveCodeBench.

    .venv/bin/python examples/encode.py            # write examples/raw and examples/expected.jsonl
    .venv/bin/python examples/encode.py --check    # only compare: exit status 1 if they are out of date

A problem is one Markdown file: settings in TOML (listed in examples/README.md), the statement, `## Tests` (Python that
lists the inputs) and `## Solution: VERDICT` sections. The first solution marked `accepted` prints the expected outputs.
The script does not render solutions marked `kept back`; LiveCodeBench has no column for solutions.

Solutions run here without isolation: do not run untrusted ones with this script.
"""

import argparse
import ast
import base64
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import tomllib
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
PROBLEMS = HERE / "problems"
RAW = HERE / "raw"
EXPECTED = HERE / "expected.jsonl"
TACO = RAW / "taco" / "train-00000-of-00001.parquet"
SYNTHETIC1 = RAW / "synthetic1" / "train-00000-of-00001.parquet"
LIVECODEBENCH = RAW / "livecodebench" / "test.jsonl"

# Some expected outputs and arguments have more than 4,300 digits.
sys.set_int_max_str_digits(0)


@dataclass(frozen=True, slots=True)
class Solution:
    verdict: str  # accepted, wrong, slow, flaky, foreign (not Python 3)
    language: str
    code: str
    kept_back: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """One row to be rendered. Tests are (input, output) pairs: texts, or a list of arguments and a value."""

    key: str  # such as taco/00-ferry-queue: source and file name
    settings: dict[str, Any]
    title: str
    statement: str
    sections: dict[str, str]
    solutions: tuple[Solution, ...]
    inputs: tuple[Any, ...]
    tests: tuple[tuple[Any, Any], ...] = ()

    @property
    def source(self) -> str:
        return self.key.split("/")[0]

    @property
    def entry_point(self) -> str | None:
        return self.settings.get("entry_point")

    @property
    def row_id(self) -> str:
        """Return the id of the row. For TACO, which has no ids, it is the number at the beginning of the file name."""
        name = self.key.split("/")[1]
        return f"{self.source}/{self.settings.get('id', int(name.split('-')[0]))}"

    @property
    def public_solutions(self) -> tuple[Solution, ...]:
        return tuple(solution for solution in self.solutions if not solution.kept_back)

    @property
    def reference(self) -> Solution:
        return next(solution for solution in self.solutions if solution.verdict in ("accepted", "flaky"))


# --- reading --------------------------------------------------------------------------------------


def read_sample(path: Path) -> Sample:
    _, front, body = path.read_text().split("+++\n", 2)
    head, *parts = re.split(r"^## (.+)\n", body, flags=re.MULTILINE)
    title, statement = re.fullmatch(r"\s*# ([^\n]+)\n(.*)", head, flags=re.DOTALL).groups()
    sections: dict[str, str] = {}
    solutions: list[Solution] = []
    inputs: tuple[Any, ...] = ()
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        if heading == "Tests":
            inputs = list_inputs(extract_code(text)[1])
        elif heading.startswith("Solution: "):
            verdict, _, kept = heading.removeprefix("Solution: ").partition(", ")
            solutions.append(Solution(verdict, *extract_code(text), kept_back=kept == "kept back"))
        else:
            sections[heading] = text.strip()
    key = f"{path.parent.name}/{path.stem}"
    return Sample(key, tomllib.loads(front), title, statement.strip(), sections, tuple(solutions), inputs)


def extract_code(text: str) -> tuple[str, str]:
    return re.search(r"^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE).groups()


def list_inputs(code: str) -> tuple[Any, ...]:
    names: dict[str, Any] = {}
    exec(code, names)
    return tuple(names["tests"])


def read_samples() -> dict[str, Sample]:
    """Return all samples with their tests, by key, in the order of sources and file names."""
    paths = [path for source in RENDERERS for path in sorted((PROBLEMS / source).glob("*.md"))]
    samples = {sample.key: sample for sample in map(read_sample, paths)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        own = [sample for sample in samples.values() if sample.inputs]
        for sample, outputs in zip(own, pool.map(compute_outputs, own), strict=True):
            samples[sample.key] = replace(sample, tests=tuple(zip(sample.inputs, outputs, strict=True)))
    for sample in list(samples.values()):
        if key := sample.settings.get("tests_of"):
            tests = samples[key].tests[: sample.settings.get("first_tests")]
            samples[sample.key] = replace(sample, tests=tests)
    return samples


# --- running the solutions --------------------------------------------------------------------------

CALL = """

if __name__ == "__main__":
    import json as _json, sys as _sys
    _owner = Solution() if "Solution" in globals() else None
    _call = getattr(_owner, {name!r}) if _owner else globals()[{name!r}]
    print(_json.dumps(_call(*_json.load(_sys.stdin))))
"""


def run(solution: Solution, sample: Sample, given: Any, *, seconds: float = 600, hash_seed: int = 0) -> Any:
    """Return the output of one solution for one input. Raises CalledProcessError or TimeoutExpired."""
    code, stdin = solution.code, given
    if sample.entry_point:
        code = "from typing import *\n" + code + CALL.format(name=sample.entry_point)
        stdin = json.dumps(given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "solution.py")
        path.write_text(code)
        command = [sys.executable, "-X", "int_max_str_digits=0", str(path)]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds,
            env={"PYTHONHASHSEED": str(hash_seed)},
        )
    return json.loads(done.stdout) if sample.entry_point else done.stdout


def compute_outputs(sample: Sample) -> list[Any]:
    return [run(sample.reference, sample, given) for given in sample.inputs]


# --- statements -----------------------------------------------------------------------------------


def render_statement(sample: Sample, samples: dict[str, Sample]) -> str:
    """Return the statement in the layout of its source."""
    if key := sample.settings.get("statement_of"):
        return render_statement(samples[key], samples)
    examples = sample.tests[: sample.settings.get("examples", 2)]
    if sample.entry_point:
        return "\n".join([sample.statement, "", *render_call_examples(sample, examples), *render_constraints(sample)])
    parts = [sample.statement]
    header = {"taco": "{}", "synthetic1": "-----{}-----", "livecodebench": "{}"}[sample.source]
    for name in ("Input", "Output", "Constraints"):
        if name in sample.sections:
            parts += [header.format(name), sample.sections[name]]
    if sample.source == "livecodebench":
        for number, (given, output) in enumerate(examples, start=1):
            parts += [f"Sample Input {number}", given.rstrip("\n"), f"Sample Output {number}", output.rstrip("\n")]
    elif examples:
        parts.append(header.format("Examples"))
        for given, output in examples:
            parts += ["Input", given.rstrip("\n"), "Output", output.rstrip("\n")]
    if "Note" in sample.sections:
        parts += [header.format("Note"), sample.sections["Note"]]
    return "\n\n".join(parts)


def list_argument_names(sample: Sample) -> list[str]:
    tree = ast.parse(sample.settings["starter"].rstrip() + " pass")
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def render_call_examples(sample: Sample, examples: tuple[tuple[Any, Any], ...]) -> list[str]:
    lines = []
    for number, (arguments, value) in enumerate(examples, start=1):
        named = zip(list_argument_names(sample), arguments, strict=True)
        lines += [f"Example {number}:", ""]
        lines += ["Input: " + ", ".join(f"{name} = {json.dumps(argument)}" for name, argument in named)]
        lines += [f"Output: {json.dumps(value)}", ""]
    return lines


def render_constraints(sample: Sample) -> list[str]:
    return ["Constraints:", "", sample.sections["Constraints"], ""] if "Constraints" in sample.sections else []


# --- TACO -----------------------------------------------------------------------------------------

TACO_COLUMNS = (
    "question solutions starter_code input_output difficulty raw_tags name source tags skill_types url"
    "|Expected Auxiliary Space|time_limit date picture_num memory_limit|Expected Time Complexity"
)
TACO_SCHEMA = pa.schema(
    (name, pa.string())
    for group in TACO_COLUMNS.split("|")
    for name in ([group] if group.startswith("Expected") else group.split())
)


def make_taco_rows(samples: dict[str, Sample]) -> list[dict[str, Any]]:
    return [make_taco_row(sample, samples) for sample in samples.values() if sample.source == "taco"]


def make_taco_row(sample: Sample, samples: dict[str, Sample]) -> dict[str, Any]:
    settings = sample.settings
    stdin = sample.entry_point is None
    seconds = settings.get("seconds")
    row = dict.fromkeys(TACO_SCHEMA.names)
    return row | {
        "question": render_statement(sample, samples),
        "solutions": json.dumps([solution.code for solution in sample.public_solutions]),
        "starter_code": settings.get("starter", ""),
        "input_output": make_taco_tests(sample),
        "difficulty": settings.get("difficulty", "UNKNOWN_DIFFICULTY"),
        "raw_tags": repr([tag.lower() for tag in settings.get("tags", [])]),
        "name": sample.title if stdin else None,
        "source": settings["platform"],
        "tags": repr(settings.get("tags", [])),
        "skill_types": "[]",
        "url": f"https://example.org/{settings['platform']}/{sample.key.split('-', 1)[1]}",
        "time_limit": f"{seconds} seconds" if seconds else None,
        "picture_num": str(settings.get("pictures", 0)) if stdin else None,
        "memory_limit": "256.0 megabytes" if stdin else None,
    }


def make_taco_tests(sample: Sample) -> str:
    quirk = sample.settings.get("quirk")
    if sample.entry_point:
        # codewars wraps the expected value in a list, leetcode does not
        wrap = (lambda value: [value]) if sample.settings["platform"] == "codewars" else (lambda value: value)
        outputs = [wrap(value) for _, value in sample.tests]
        inputs = [given for given, _ in sample.tests]
        return json.dumps({"fn_name": sample.entry_point, "inputs": inputs, "outputs": outputs})
    inputs = [given.removesuffix("\n") for given, _ in sample.tests]
    outputs = [output.removesuffix("\n") for _, output in sample.tests]
    if quirk == "lists of lines":
        inputs = [given.split("\n") for given, _ in sample.tests]
        outputs = [output.split("\n") for _, output in sample.tests]
    if quirk == "unequal lengths":
        outputs = outputs[:-1]
    tests = {"inputs": inputs, "outputs": outputs} | ({"fn_name": None} if quirk == "null fn_name" else {})
    text = json.dumps(tests)
    return text[: len(text) * 2 // 3] if quirk == "broken JSON" else text


# --- SYNTHETIC-1 ----------------------------------------------------------------------------------

SYNTHETIC1_COLUMNS = (
    "response_id problem_id source in_source_id hf_dataset_name task_type prompt gold_standard_solution"
    " llm_response verification_info score verification_result_info metadata"
)
SYNTHETIC1_SCHEMA = pa.schema(
    (name, pa.float64() if name == "score" else pa.string()) for name in SYNTHETIC1_COLUMNS.split()
)
STDIN_SUFFIX = "The input will be stdin and you should print your solution to stdout"
GAVE_UP = "I tried a direct simulation, but I ran out of room before the code was complete.\n\n```python\n"


def make_synthetic1_rows(samples: dict[str, Sample]) -> list[dict[str, Any]]:
    """Return two rows for each problem: all first responses, then the second ones in reverse order."""
    pairs = [make_synthetic1_pair(sample, samples) for sample in samples.values() if sample.source == "synthetic1"]
    return [first for first, _ in pairs] + [second for _, second in reversed(pairs)]


def make_synthetic1_pair(sample: Sample, samples: dict[str, Sample]) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = sample.settings
    shared = {
        "problem_id": settings["id"],
        "source": settings["platform"],
        "in_source_id": sample.key.split("-", 1)[1],
    }
    if "answer" in settings:
        shared |= {
            "hf_dataset_name": "PrimeIntellect/SYNTHETIC-1",
            "task_type": "verifiable_math",
            "prompt": sample.statement,
            "gold_standard_solution": settings["answer"],
            "verification_info": repr({"ground_truth": settings["answer"]}),
            "metadata": "{}",
        }
        answers = [(f"The answer is \\boxed{{{settings['answer']}}}.", 1.0), ("I do not know.", 0.0)]
    else:
        shared |= {
            "hf_dataset_name": "PrimeIntellect/verifiable-coding-problems",
            "task_type": "verifiable_code",
            "prompt": make_synthetic1_prompt(sample, samples),
            "gold_standard_solution": format_code(sample.public_solutions[0]) if sample.public_solutions else None,
            "verification_info": repr(make_synthetic1_tests(sample)),
            "metadata": repr(make_synthetic1_metadata(sample)),
        }
        thought = "Let me work through the constraints first.\n\n"
        answers = [
            (thought + format_code(solution), float(solution.verdict == "accepted"))
            for solution in sample.public_solutions
        ]
        answers = [*answers, (GAVE_UP, 0.0), (GAVE_UP, 0.0)][:2]
    first, second = (
        {
            "response_id": f"{settings['id']}_{compute_short_digest(f'{sample.key} {number}')}",
            "llm_response": answer,
            "score": score,
            "verification_result_info": repr({"failure_reason": "no_code_block"}) if answer == GAVE_UP else "{}",
        }
        for number, (answer, score) in enumerate(answers)
    )
    return shared | first, shared | second


def compute_short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def make_synthetic1_prompt(sample: Sample, samples: dict[str, Sample]) -> str:
    parts = [f"Solve the following coding problem using the programming language {find_language(sample)}:"]
    parts.append(render_statement(sample, samples))
    if sample.entry_point:
        parts += ["The function to implement:", sample.settings["starter"] + "\n"]
    else:
        parts.append(STDIN_SUFFIX + "\n")
    return "\n\n".join([*parts, "Now solve the problem and return the code."])


def find_language(sample: Sample) -> str:
    return sample.public_solutions[0].language if sample.public_solutions else "python"


def format_code(solution: Solution) -> str:
    return f"```{solution.language}\n{solution.code}```"


def make_synthetic1_tests(sample: Sample) -> dict[str, Any]:
    shape = {"type": "stdin_stdout"}
    if sample.entry_point:
        shape = {"type": "function_call", "fn_name": sample.entry_point}
    cases = [shape | {"input": given, "output": output} for given, output in sample.tests]
    return {"language": find_language(sample), "test_cases": cases}


def make_synthetic1_metadata(sample: Sample) -> dict[str, Any]:
    seconds = sample.settings.get("seconds")
    return {
        "difficulty": sample.settings.get("difficulty"),
        "memory_limit": None if sample.entry_point else "256.0 megabytes",
        "memory_limit_bytes": None,
        "problem_url": f"https://example.org/{sample.settings['platform']}/{sample.key.split('-', 1)[1]}",
        "time_limit": f"{seconds} seconds" if seconds else None,
    }


# --- LiveCodeBench --------------------------------------------------------------------------------


def make_livecodebench_rows(samples: dict[str, Sample]) -> list[dict[str, Any]]:
    return [make_livecodebench_row(sample, samples) for sample in samples.values() if sample.source == "livecodebench"]


def make_livecodebench_row(sample: Sample, samples: dict[str, Sample]) -> dict[str, Any]:
    settings = sample.settings
    tests = [make_livecodebench_test(sample, *test) for test in sample.tests]
    if settings.get("quirk") == "error as expected value":
        tests[-1]["output"] = "Error: the reference did not finish in time"
    public = settings.get("examples", 2)
    private = json.dumps(tests[public:])
    if settings.get("private", "pickle") == "pickle":
        packed = zlib.compress(pickle.dumps(private, protocol=4))
        private = base64.b64encode(packed).decode()
    return {
        "question_title": sample.title,
        "question_content": render_statement(sample, samples),
        "platform": settings["platform"],
        "question_id": settings["id"],
        "contest_id": settings["contest"],
        "contest_date": f"{settings['date']}T00:00:00",
        "starter_code": settings["starter"] + "\n        " if sample.entry_point else "",
        "difficulty": settings["difficulty"].lower(),
        "public_test_cases": json.dumps(tests[:public]),
        "private_test_cases": private,
        "metadata": json.dumps({"func_name": sample.entry_point} if sample.entry_point else {}),
    }


def make_livecodebench_test(sample: Sample, given: Any, output: Any) -> dict[str, str]:
    if sample.entry_point is None:
        return {"input": given, "output": output, "testtype": "stdin"}
    arguments = "\n".join(json.dumps(argument) for argument in given)
    return {"input": arguments, "output": json.dumps(output), "testtype": "functional"}


# --- writing --------------------------------------------------------------------------------------

RENDERERS = {"taco": make_taco_rows, "synthetic1": make_synthetic1_rows, "livecodebench": make_livecodebench_rows}


def make_expected_rows(samples: dict[str, Sample]) -> list[dict[str, Any]]:
    """Return the expected outcome of each problem: `keep`, or `reject` with the reason."""
    rows = []
    for sample in samples.values():
        reason = sample.settings["expect"]
        row = {"id": sample.row_id, "expect": "keep" if reason == "keep" else "reject"}
        row["reason"] = None if reason == "keep" else reason
        if key := sample.settings.get("duplicate_of"):
            row["duplicate_of"] = samples[key].row_id
        rows.append(row | {"file": f"problems/{sample.key}.md"})
    return rows


def format_json_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def decompress_row(row: dict[str, Any]) -> dict[str, Any]:
    """Decompress the private tests of a LiveCodeBench row, because versions of zlib compress differently."""
    private = row["private_test_cases"]
    packed = b"" if private.startswith("[") else zlib.decompress(base64.b64decode(private))
    return row | {"private_test_cases": packed or private}


def write(samples: dict[str, Sample]) -> None:
    for path in (TACO, SYNTHETIC1, LIVECODEBENCH):
        path.parent.mkdir(parents=True, exist_ok=True)
    for path, rows, schema in (
        (TACO, make_taco_rows(samples), TACO_SCHEMA),
        (SYNTHETIC1, make_synthetic1_rows(samples), SYNTHETIC1_SCHEMA),
    ):
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd", row_group_size=100)
    LIVECODEBENCH.write_text(format_json_lines(make_livecodebench_rows(samples)))
    EXPECTED.write_text(format_json_lines(make_expected_rows(samples)))


def find_stale_files(samples: dict[str, Sample]) -> list[Path]:
    """Return the files with outdated content, independent of the versions of pyarrow and zlib."""
    lines = LIVECODEBENCH.read_text().splitlines()
    fresh = {
        TACO: pq.read_table(TACO).to_pylist() == make_taco_rows(samples),
        SYNTHETIC1: pq.read_table(SYNTHETIC1).to_pylist() == make_synthetic1_rows(samples),
        LIVECODEBENCH: [decompress_row(json.loads(line)) for line in lines]
        == [decompress_row(row) for row in make_livecodebench_rows(samples)],
        EXPECTED: EXPECTED.read_text() == format_json_lines(make_expected_rows(samples)),
    }
    return [path for path, same in fresh.items() if not same]


def main() -> int:
    parser = argparse.ArgumentParser(description="Render examples/problems into examples/raw.")
    parser.add_argument("--check", action="store_true", help="compare with the existing files, and write nothing")
    check = parser.parse_args().check
    samples = read_samples()
    if not check:
        write(samples)
        for path in (TACO, SYNTHETIC1, LIVECODEBENCH, EXPECTED):
            print(f"{path.stat().st_size:8,} bytes  {path.relative_to(HERE.parent)}")
        return 0
    stale = find_stale_files(samples)
    for path in stale:
        print(f"{path.relative_to(HERE.parent)} is out of date: run {Path(sys.argv[0])}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
