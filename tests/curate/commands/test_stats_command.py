import json
import os
import subprocess
import sys
from pathlib import Path

from curate_command import curate

ROOT = Path(__file__).parents[3]


def cells(output, first):
    return [line.split() for line in output.splitlines() if line.split()[:1] == [first]]


def test_the_tables_of_the_report_are_printed(reported):
    result = curate("stats", reported, check=True)
    report = json.loads((reported / "report.json").read_text())
    taco = report["funnel"]["sources"]["taco"]
    assert cells(result.stdout, "taco")[0][:2] == ["taco", str(taco["read"])]
    assert cells(result.stdout, "taco")[0][-2:] == [str(taco["kept"]), str(taco["verified"])]
    assert ["verify", "reference_fails", "wrong_answer", "1", "1", "-", "-"] in cells(result.stdout, "verify")
    assert cells(result.stdout, "mine") == [["mine", "3", "16", "2", "0.125", "contained", "1,", "same_text", "1", "1"]]
    assert cells(result.stdout, "synthetic1")[-1] == ["synthetic1", "0", "0", "13"]
    for heading in (
        "Tests per problem",
        "Test strength",
        "Solve rate of b",
        "Similarity",
        "Closest to their time limit",
    ):
        assert f"\n{heading}" in result.stdout
    assert "Warning: mine" in result.stdout


def test_json_is_the_content_of_the_report(reported):
    result = curate("stats", reported, "--json")
    assert json.loads(result.stdout) == json.loads((reported / "report.json").read_text())


def test_a_terminal_without_unicode_is_not_an_error(reported):
    code = f"from cli import main; main(['inspect', {str(reported)!r}, 'taco/0'])"
    environment = os.environ | {"PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "\\x1b[31m" in done.stdout
