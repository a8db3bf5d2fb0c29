"""Problems are on disk between the stages of a build, so memory holds only a few of them, however large they are."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

from source_rows import words

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from pathlib import Path
from curate.pipeline import BuildOptions, build
build([("generic", sys.argv[1])], Path(sys.argv[2]), BuildOptions(limit=int(sys.argv[3])))
print(Path("/proc/self/status").read_text())
"""


def write_rows(folder, count):
    """Write rows with 40 KB of tests each, random ones, so that compression helps little."""
    rng = random.Random(0)
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(count):
            inputs = [f"{test} {rng.randbytes(4_000).hex()}" for test in range(5)]
            row = {"statement": words(number), "inputs": inputs, "outputs": ["1"] * 5}
            file.write(json.dumps(row) + "\n")
    fields = "".join(f'{name} = "{name}"\n' for name in ("statement", "inputs", "outputs"))
    (folder / "mapping.toml").write_text(f'location = "rows.jsonl"\n[fields]\n{fields}')
    return folder / "mapping.toml"


def peak_mb(mapping, out, limit):
    command = [sys.executable, "-c", BUILD, mapping, out, str(limit)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(re.findall(r"VmHWM:\s*(\d+) kB", done.stdout)[0]) / 1024


def test_memory_does_not_grow_with_the_tests_of_the_problems(tmp_path):
    mapping = write_rows(tmp_path, 1_800)
    few = peak_mb(mapping, tmp_path / "few", 500)
    # The smaller of two peaks: on a busy machine, threads of libraries overlap more at times.
    many = min(peak_mb(mapping, tmp_path / f"many-{time}", 1_800) for time in (1, 2))
    assert many - few < 26  # the tests grow by 52 MB
