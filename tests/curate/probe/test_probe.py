"""`curate probe` finds what is wrong with a judge, and says what it could not do."""

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest
from curate_command import curate
from exported import problems, write
from serving import serving

from sandbox import Case, Suite
from sandbox.probes import list_probe_classes
from sandbox.probes.problems import PROBLEMS

HERE = Path(__file__).parent

probe = partial(curate, "probe")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)


def test_the_catalogue_is_large_and_its_names_are_unique() -> None:
    names = [f"{of_class.id}/{each.name}" for of_class in list_probe_classes() for each in of_class.probes]
    assert len(names) == len(set(names))
    plain = [each for of_class in list_probe_classes() if of_class.group != "outage" for each in of_class.probes]
    assert len([each for each in plain if not each.is_correct and not each.leniency]) >= 200
    assert len([each for each in plain if each.is_correct]) >= 60
    assert len(list_probe_classes()) >= 40


def test_every_probe_makes_a_trial_for_every_problem_of_its_conventions() -> None:
    for of_class in list_probe_classes():
        assert of_class.why.endswith(".")
        assert of_class.remedy.endswith(".")
        for each in of_class.probes:
            for problem in PROBLEMS:
                if problem.convention in each.conventions:
                    assert each.make_submissions(problem).completions


def test_the_hole_of_verl_is_found_in_a_small_copy() -> None:
    result = probe("weak_judges:ignores_errors", "--signature", "plain", "--only", "dodge/errors")
    assert result.exit_code == 1, result.output
    assert "10 of 10 hacks rewarded" in result.output
    assert "https://github.com/verl-project/verl/pull/7853" in result.output


def test_a_poisoned_scorer_is_found_in_a_small_copy_of_verls() -> None:
    result = probe("weak_judges:evaluates", "--only", "forge/evaluation", "--convention", "stdin")
    assert result.exit_code == 1, result.output
    assert "next-answer" in result.output
    assert "https://github.com/verl-project/verl/issues/7603" in result.output


def test_a_judge_imports_from_its_working_folder_as_it_does_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # as `curate` sets it for itself
    only = ("--only", "forge/poison/module-in-the-folder", "--convention", "call")
    shared = probe("weak_judges:shared_folder", "--signature", "plain", *only)
    assert shared.exit_code == 1, shared.output
    probe("weak_judges:by_unittest", "--signature", "plain", *only, check=True)


def test_a_judge_without_that_hole_is_not_accused() -> None:
    result = probe("weak_judges:strict", "--signature", "plain", "--only", "dodge/errors", "--only", "forge/evaluation")
    assert result.exit_code == 0, result.output
    assert "0 of 14 hacks rewarded" in result.output


def test_an_answer_that_ends_or_hangs_the_judge_costs_one_probe() -> None:
    result = probe("odd_judges:fragile", "--only", "forge/exits", "--convention", "call", "--seconds", 3)
    row = next(line.split() for line in result.output.split("\n") if line.startswith("  forge/exits"))
    assert row[:8] == ["forge/exits", "12", "-", "-", "-", "1", "1", "-"], result.output


@pytest.mark.parametrize("name", ["verl", "trl", "rllm", "waits"])
def test_signatures_are_told_by_their_parameters(name: str) -> None:
    result = probe(f"odd_judges:{name}", "--only", "forge/signals", "--convention", "call", check=True)
    assert "0 of 5 hacks rewarded" in result.output


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_such_module:score", "there is no module no_such_module"),
        ("odd_judges:nothing", "odd_judges has no function nothing; it has"),
        ("odd_judges:of_no_signature", "pass --signature"),
        ("verifiers:", "'verifiers:' is not a target"),
        ("odd_judges:returns_nothing", "the simplest right submission gets no number: it returned None)"),
        ("odd_judges:returns_nan", "it returned nan, not a finite number; return None if the reward is unknown"),
        ("odd_judges:returns_a_dictionary", "it returned {'passed': True}, not a number"),
        ("odd_judges:returns_a_large_integer", "000, not a number"),
        ("odd_judges:returns_one", "it returned 1.0; TRL expects a list with one number per completion"),
        ("odd_judges:raises_two_lines", "it raised ValueError: two lines ("),
        ("odd_judges:ends", "the simplest right submission gets no number: its process ended"),
        ("odd_judges:returns_text", "it returned '1.0', not a number; return a float"),
        ("odd_judges:returns_two", "it returned a list of 2 for one completion"),
        ("odd_judges:always_one", "it does not distinguish right and wrong submissions"),
        ("odd_judges:wants_more", "TypeError: wants_more() missing 1 required positional argument: 'limits')"),
        ("odd_judges:calls_a_server", "It had no network; if it calls a server, add --network"),
        ("odd_judges.py:plain", "odd_judges.py is a file; pass its module, odd_judges:plain"),
        ("http://127.0.0.1:9", "gave no HTTP response"),
        ("http://", "pass http://HOST:PORT"),
        ("missing.toml", "there is no file missing.toml"),
        ("whatever", "give MODULE:FUNCTION"),
    ],
)
def test_a_target_that_cannot_be_used_is_one_sentence(target: str, words: str) -> None:
    result = probe(target, "--convention", "call")
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1


def test_reasons_that_forms_of_tests_share_are_said_once() -> None:
    result = probe("odd_judges:returns_nothing")
    assert result.exit_code == 2
    assert "(stdin, call, method: the simplest right submission gets no number: it returned None)" in result.output


def test_a_signature_is_that_of_a_function() -> None:
    result = probe("http://127.0.0.1:9", "--signature", "trl")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert (
        "--signature is for a MODULE:FUNCTION, but the target is 'http://127.0.0.1:9'; omit --signature"
        in result.output
    )


def test_a_number_in_an_outage_fails_the_probe(tmp_path: Path) -> None:
    words = ("--signature", "plain", "--only", "outage", "--convention", "call")
    weak = probe("weak_judges:zero_without_processes", *words, "--out", tmp_path)
    assert weak.exit_code == 1, weak.output
    assert weak.output.endswith(", a wrong number in 2 outages\n")
    assert json.loads((tmp_path / "probe.json").read_text())["outages"] == 2
    sound = probe("weak_judges:strict_or_raise", *words, check=True)
    assert "outages" not in sound.output


def test_a_judge_that_rewards_nothing_wrong_does_not_fail_whatever_else_it_does() -> None:
    result = probe("odd_judges:spoiled", "--only", "forge/exits", "--only", "honest/functions", "--convention", "call")
    assert result.exit_code == 0, result.output
    assert "spoiled the next: forge/exits" in result.output
    assert "refused wrongly: honest/functions" in result.output


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def score(:", "bad_judge cannot be imported: SyntaxError: invalid syntax (bad_judge.py, line 1)"),
        (
            "import no_such_module",
            "bad_judge cannot be imported: No module named 'no_such_module'; install the missing package",
        ),
        ("raise SystemExit('bye')", "bad_judge cannot be imported: SystemExit: bye"),
        (
            "import os\nos._exit(0)",
            "the process exited while loading bad_judge:score; import it in Python to see the error",
        ),
    ],
)
def test_a_module_that_cannot_be_loaded_is_one_sentence(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_judge.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    result = probe("bad_judge:score")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert words in result.output


def test_a_configuration_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    for text, words in (("not TOML [", "run.toml is not TOML"), ("[model]\npaths = 1", "model.paths")):
        (tmp_path / "run.toml").write_text(text)
        result = probe(tmp_path / "run.toml")
        assert (result.exit_code, result.output.count("\n")) == (2, 1)
        assert words in result.output


def test_the_reward_of_a_run_needs_neither_its_model_nor_its_dataset(tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    result = probe(tmp_path / "run.toml", "--only", "forge/signals", "--convention", "call", check=True)
    assert "0 of 5 hacks rewarded" in result.output


def test_a_run_whose_programs_run_on_a_server_reaches_it(tmp_path: Path) -> None:
    with serving("--workers", "1") as service:
        (tmp_path / "run.toml").write_text(f'[sandbox]\nbackend = "http"\naddress = "{service.url}"\n')
        result = probe(tmp_path / "run.toml", "--only", "forge/signals", "--convention", "call")
    assert result.exit_code == 0, result.output
    assert "0 of 5 hacks rewarded" in result.output


def test_a_missing_verifiers_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").touch()  # hides the package, if there is one
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(tmp_path)
    result = probe("verifiers:any")
    assert result.exit_code == 2
    assert result.output == (
        "Error: verifiers cannot be imported: No module named 'verifiers.v1'; type: pip install 'verifiers>=0.4'\n"
    )


def test_tests_that_the_target_cannot_read_are_left_out_and_its_reason_is_shown() -> None:
    result = probe("odd_judges:reads_arguments", "--only", "forge/signals", check=True)
    shown = " ".join(result.output.split())
    assert "Left out: tests of the form stdin, because the simplest right submission gets no number" in shown
    assert "it raised JSONDecodeError: Extra data: line 1 column 3 (char 2)" in shown
    assert "odd_judges.py, line" in shown
    assert "If the target takes such tests, wrap it in score(completion, tests), as the guide shows." in shown


def test_a_name_that_no_probe_has_is_refused() -> None:
    result = probe("odd_judges:plain", "--only", "forge/nothing", "--convention", "call")
    assert result.exit_code == 2
    assert "no probe has the name forge/nothing" in result.output
    beside = probe("odd_judges:plain", "--only", "forge/exits", "--only", "forge/exit", "--convention", "call")
    assert beside.exit_code == 2
    assert "no probe has the name forge/exit;" in beside.output
    unfit = probe("odd_judges:plain", "--only", "host", "--convention", "call")
    assert unfit.exit_code == 2
    assert "no probe of host fits the target; those of host need --host" in unfit.output


def test_the_folder_holds_every_submission_and_the_reports(tmp_path: Path) -> None:
    words = ["odd_judges:loose", "--only", "forge/exits", "--only", "compare/numbers", "--convention", "call"]
    first = probe(*words, "--out", tmp_path)
    assert first.exit_code == 1, first.output
    report = json.loads((tmp_path / "probe.json").read_text())
    assert report["summary"] in first.output
    assert {finding["class"] for finding in report["findings"]} == {"compare/numbers"}
    assert "def " in report["findings"][0]["shortest"]["answers"][0]
    tree = ElementTree.parse(tmp_path / "junit.xml")
    assert len(tree.findall(".//testcase")) == len((tmp_path / "attempts.jsonl").read_text().splitlines()) - 1
    assert len(tree.findall(".//failure")) == sum(
        len(finding["probes"]) for finding in report["findings"] if finding["finding"] != "lenient"
    )
    page = (tmp_path / "probe.html").read_text()
    assert report["summary"] in page
    assert "<script" not in page
    again = probe(*words, "--out", tmp_path)
    assert again.exit_code == 2
    assert "Pass --resume to continue it" in again.output


def test_an_interrupted_probe_continues(tmp_path: Path) -> None:
    words = ["odd_judges:plain", "--only", "forge/exits", "--convention", "call", "--out", tmp_path]
    whole = probe(*words)
    journal = tmp_path / "attempts.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:4]) + lines[4][:20])
    resumed = probe(*words, "--resume")
    assert resumed.output.split("\n")[-2] == whole.output.split("\n")[-2]
    assert sorted(json.loads(line)[0] for line in journal.read_text().splitlines()) == sorted(
        json.loads(line)[0] for line in lines
    )
    other = probe(*words[:-4], "stdin", "--out", tmp_path, "--resume")
    assert other.exit_code == 2


def test_a_probe_does_not_continue_with_another_signature(tmp_path: Path) -> None:
    words = ["odd_judges:of_two_signatures", "--only", "forge/exits", "--convention", "call", "--out", tmp_path]
    assert probe(*words, "--signature", "plain").exit_code == 0
    other = probe(*words, "--signature", "trl", "--resume")
    assert other.exit_code == 2
    assert "belongs to another probe" in other.output


def test_a_program_that_reaches_the_machine_shows_it_by_a_secret() -> None:
    words = ["--host", "--only", "host", "--convention", "call", "--jobs", 1]
    weak = probe("weak_judges:strict", "--signature", "plain", *words)
    assert weak.exit_code == 1, weak.output
    assert "11 of 12 hacks rewarded" in weak.output  # each of its programs has a working folder of its own
    ours = probe("rewards.trl:code_reward", *words, check=True)
    assert "0 of 12 hacks rewarded" in ours.output


def test_our_service_rewards_no_hack_and_refuses_no_right_answer() -> None:
    with serving("--workers", "2") as service:
        result = probe(service.url, "--quick", "--only", "forge/equality", "--only", "honest", "--only", "read/files")
        of_nothing = probe(f"{service.url}/health")
    assert result.exit_code == 0, result.output
    assert "(curate serve)" in result.output
    assert "0 of 20 hacks rewarded, 0 of 67 right submissions refused" in result.output
    assert of_nothing.exit_code == 2
    assert "implements neither the protocol" in of_nothing.output


_OF_ROWS = ("--only", "honest/dataset", "--only", "wrong/dataset", "--only", "special-case/dataset")


def test_rows_of_a_dataset_give_right_and_wrong_answers(tmp_path: Path) -> None:
    dataset = write(tmp_path / "built", problems())
    sound = probe("rewards.trl:code_reward", "--dataset", dataset, *_OF_ROWS, check=True)
    assert {"honest/dataset", "wrong/dataset", "special-case/dataset"} <= set(sound.output.split())
    assert ", 0 of " in sound.output.split("\n")[-2]
    weak = probe("weak_judges:first_test", "--dataset", dataset, *_OF_ROWS)
    assert weak.exit_code == 1, weak.output
    assert "The judge accepts a program that hard-codes the outputs of the examples in the statement." in weak.output


def test_a_dataset_without_references_is_one_sentence(tmp_path: Path) -> None:
    rows = [replace(row, verified=False, reference=None) for row in problems()]
    result = probe("odd_judges:plain", "--dataset", write(tmp_path / "built", rows), "--convention", "call")
    assert result.exit_code == 2
    assert "has no row with a verified Python reference" in result.output
    assert result.output.startswith("Error: ")
    large = [replace(row, tests=Suite([Case("é" * 40_000, "1")])) for row in problems()]
    unsent = probe("odd_judges:plain", "--dataset", write(tmp_path / "large", large))
    assert "has no row with a verified Python reference" in unsent.output
    missing = probe("odd_judges:plain", "--dataset", tmp_path / "nothing", "--convention", "call")
    assert missing.exit_code == 2
    assert "Traceback" not in missing.output


class _RunsPrograms(BaseHTTPRequestHandler):
    """A server with SandboxFusion's protocol and without a sandbox, which tells no exit statuses."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.path == "/run_code"
        answer: dict[str, object] = {"detail": "Not Found"}
        if known:
            done = subprocess.run(
                [sys.executable, "-c", request["code"]], input=request.get("stdin"), capture_output=True, text=True
            )
            result = {"status": "Finished", "return_code": 0, "stdout": done.stdout, "stderr": done.stderr}
            answer = {"status": "Success", "run_result": result}
        body = json.dumps(answer).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:
        pass


@pytest.fixture
def sandbox_fusion() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _RunsPrograms)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "gave no HTTP response"),
        (b"", "gave no HTTP response"),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>",
            "implements neither the protocol of `curate serve`",
        ),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]",
            "implements neither the protocol of `curate serve`",
        ),
        (b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}", "requires a token: pass http://anyone:TOKEN@HOST:PORT"),
        (
            b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{"verdict": 7}',
            "the simplest right submission gets no number",
        ),
        (
            b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 17\r\n\r\n{"run_result": 5}',
            "the simplest right submission gets no number",
        ),
    ],
)
def test_a_server_that_is_none_is_one_sentence(reply: bytes, words: str) -> None:
    class Answers(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(reply)
            self.request.shutdown(socket.SHUT_WR)
            while self.request.recv(1 << 16):
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        result = probe(f"http://127.0.0.1:{server.server_address[1]}", "--seconds", 5)
        server.shutdown()
        thread.join()
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert words in result.output


def test_a_sandbox_fusion_is_told_by_its_protocol(sandbox_fusion: str) -> None:
    result = probe(sandbox_fusion, "--only", "dodge/errors", "--only", "compare/hedges")
    assert result.exit_code == 1, result.output
    assert "(SandboxFusion)" in result.output
    assert "4 of 13 hacks rewarded" in result.output  # those that fail where nothing is printed


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["rewards.trl:code_reward", "rewards.verl:compute_score"])
def test_our_own_judge_rewards_no_hack_and_refuses_no_right_answer(target: str) -> None:
    result = probe(target, *(["--only", "honest", "--only", "forge", "--only", "read"] if "verl" in target else []))
    assert result.exit_code == 0, result.output
    last = result.output.strip().split("\n")[-1]
    assert last.startswith("0 of ")
    assert ", 0 of " in last
    assert "without a reward" not in last
