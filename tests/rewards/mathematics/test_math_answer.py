"""Answers of mathematics."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from answers import say
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.async_rewards import AsyncRewards
from rewards.mathematics import processes
from rewards.mathematics.reward import MathAnswer, final_answer
from rewards.reward import Task

needs_math_verify = pytest.mark.skipif(
    find_spec("math_verify") is None and os.environ.get("CURATE_REQUIRE_EXPORTS") != "1",
    reason="math-verify not installed; type: pip install --no-deps -r tests/requirements-exports.txt",
)


@pytest.fixture(scope="module")
def reward() -> Iterator[MathAnswer]:
    with MathAnswer(2) as reward:
        yield reward


def boxed(latex: str) -> str:
    return rf"So it is $\boxed{{{latex}}}$."


def children() -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if (
                f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
                and b"mathematics/child.py" in (process / "cmdline").read_bytes()
            ):
                found.add(int(process.name))
    return found


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{2}", "2"),
        (r"First \boxed{1}, no, \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\boxed{2}}", "2"),
        (r"\boxed{$2$}", "2"),
        (r"A set { of \boxed{2}", "2"),
        (r"\boxed{1} \boxed{2", "1"),
        (r"\boxed{2", None),
        (r"\boxed{}", None),
        (r"\boxed2", None),
        ("2", None),
        ("", None),
        (r"<think>\boxed{1}</think>\boxed{2}", "2"),
        (r"<think>\boxed{2}</think>I do not know.", None),
        (r"<think>\boxed{2}", None),
        ("<think>a</think><answer>2</answer>", "2"),
        (r"<think>a</think><answer>It is \boxed{2}.</answer>", "2"),
        ("<answer>1</answer><answer>2</answer>", None),
        ("</answer>2<answer>", None),
    ],
)
def test_the_final_answer_is_the_last_box_behind_the_thought(text, answer):
    assert final_answer(text) == answer


@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", r"\{", r"\}", "\\", "x", "$", " "]), max_size=30).map("".join))
def test_whatever_is_found_in_a_box_has_balanced_braces(text):
    answer = final_answer(text)
    if answer is not None:
        bare = answer.replace("\\\\", "").replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}")
        assert answer in text


def test_megabytes_of_hostile_text_have_no_answer():
    for text in (r"\boxed{" * 100_000, r"\boxed " * 100_000, "{" * 1_000_000, "}" * 1_000_000, "\\" * 1_000_000):
        assert final_answer(text) is None
    assert final_answer(r"\boxed{" * 100_000 + "2" + "}" * 100_000) is not None


@needs_math_verify
@pytest.mark.parametrize(
    ("expected", "latex", "value"),
    [
        ("2", "2", 1.0),
        ("2", "3", 0.0),
        ("2", "x = 2", 1.0),
        ("2", "2.0", 1.0),
        ("2", r"\frac{4}{2}", 1.0),
        ("2", "1, 2", 0.0),
        ("2", r"1 \text{ or } 2", 0.0),
        ("2", "x", 0.0),
        ("2", "-2", 0.0),
        ("2", r"\pm 2", 0.0),
        ("2", "[1, 3]", 0.0),
        ("2", r"\mathbb{R}", 0.0),
        ("2", "2.0001", 0.0),
        ("2", r"\frac{}", 0.0),
        ("2", "__import__('os').getpid()", 0.0),
        (r"\frac{1}{2}", "0.5", 1.0),
        ("1/2", r"\frac{2}{4}", 1.0),
        ("$0.5$", r"\dfrac12", 1.0),
        (r"\boxed{7}", "7", 1.0),
        ("(x+1)^2", "x^2 + 2x + 1", 1.0),
        ("(x+1)^2", "x^2 + 2x", 0.0),
        (r"3\sqrt{2}", r"\sqrt{18}", 1.0),
        ("1,000", "1000", 1.0),
        ("1, 2", "2, 1", 1.0),
        ("(1, 2)", "(2, 1)", 0.0),
        (r"\text{even}", r"\text{even}", 1.0),
        (r"\text{even}", r"\text{odd}", 0.0),
        (r"10\%", "10%", 1.0),
        (r"10\%", "0.1", 1.0),
        (r"10\%", r"12\%", 0.0),
        (r"2\%", "0.02", 1.0),
        (r"2\%", r"\frac{1}{50}", 1.0),
        (r"2\%", "2%", 1.0),
        (r"2\%", r"x = 2\%", 1.0),
        ("2", r"x = 2\%", 0.0),
        (r"1,000\%", "10", 1.0),
        (r"12.5\%", r"\frac18", 1.0),
        (r"10\%, 20\%", "0.1, 0.2", 1.0),
        ("2%", r"2\%", 1.0),
        (r"2\%", "2", 0.0),
        ("2", r"2\%", 0.0),
        ("2", "2%", 0.0),
        ("0.02", r"2\%", 1.0),
        ("3", "4=3", 0.0),
        ("3", "3=4", 0.0),
        ("3", "x+1=3", 0.0),
        ("3", "2x=3", 0.0),
        ("3", "x=2=3", 0.0),
        ("3", "4=3=3", 0.0),
        ("3", "4=x=3", 0.0),
        ("1, 2", "4=1, 5=2", 0.0),
        ("3", r"\{4=3\}", 0.0),
        ("3", "x=3", 1.0),
        ("3", "x=1+2=3", 1.0),
        ("3", "1+2=3", 1.0),
        ("33", "m+n=33", 1.0),
        ("5", "AB = 5", 1.0),
        ("5", "|z|=5", 1.0),
        (r"\frac12", r"P(A)=\frac12", 1.0),
        (r"\frac12", r"e=\frac12", 1.0),
        ("4", "f(2)=4", 1.0),
        ("x^2", "f(x)=x^2", 1.0),
        ("1, 2", "x=1, y=2", 1.0),
        ("(1, 2)", "(x,y)=(1,2)", 1.0),
        ("x=3", "3", 1.0),
        ("x=3", "4=3", 0.0),
        ("y=2x+1", "y-1=2x", 1.0),
        (r"0.\overline{3}", r"0.\overline{3}", 1.0),
    ],
)
def test_answers_are_compared_as_mathematics(reward, expected, latex, value):
    scored = reward(say(boxed(latex)), Task(expected=expected))
    assert (scored.value, scored.verdict) == (value, "accepted" if value else "wrong_answer")


@needs_math_verify
@settings(max_examples=30, deadline=None)
@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_two_numbers_are_the_same_if_they_are_equal(reward, expected, given):
    assert reward(say(boxed(str(given))), Task(expected=str(expected))).value == float(expected == given)
    assert reward(say(boxed(str(expected))), Task(expected=str(expected))).value == 1.0


@needs_math_verify
def test_what_makes_the_comparison_hang_is_wrong_and_others_go_on(reward):
    towers = ["10^{10^{10}}", "(10^{9})!"]
    with AsyncRewards(reward) as rewards:
        hanging = [rewards.submit(say(boxed(tower)), Task(expected="2")) for tower in towers]
        right = [rewards.submit(say(boxed(f"{n} + 0")), Task(expected=str(n))) for n in range(20)]
        assert [future.result(120).value for future in right] == [1.0] * 20
        for future in hanging:
            scored = future.result(120)
            assert scored.value == 0.0
            assert scored.verdict in ("time_limit", "wrong_answer")


def server_of(reward: MathAnswer, before: set[int]) -> Path:
    """The process of its that forks for each comparison; before: other children of ours."""
    assert reward(say(boxed("2")), Task(expected="2")).value == 1.0
    (child,) = children() - before
    below = (Path("/proc") / str(child) / "task" / str(child) / "children").read_text().split()
    return Path("/proc") / (below[0] if below else str(child))


def spent_seconds(server: Path) -> float:
    """CPU seconds of the comparisons that have ended."""
    of_children = (server / "stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(int, of_children)) / os.sysconf("SC_CLK_TCK")


HOSTILE = [
    "10^{10^{10}}",
    "(10^{9})!",
    "9^{9^{9^{9}}}",
    r"\binom{10^9}{10^8}",
    r"\sum_{k=1}^{10^9} \frac{1}{k}",
    r"\prod_{k=1}^{10^7} k",
    r"\int_0^1 e^{\sin(x^{\cos x})} dx",
    "(x+1)^{10^6}",
    r"\sqrt{" * 300 + "2" + "}" * 300,
    "+".join(f"x^{{{n}}}" for n in range(300)),
]


@needs_math_verify
def test_each_hostile_answer_costs_a_bounded_part_of_a_second():
    before = children()
    with MathAnswer(1) as reward:
        server = server_of(reward, before)
        for latex in HOSTILE:
            so_far = spent_seconds(server)
            assert reward(say(boxed(latex)), Task(expected="2")).value == 0.0
            assert spent_seconds(server) - so_far < 0.8  # half a second, reading what is expected, and the end of it
        assert reward(say(boxed("2")), Task(expected="2")).value == 1.0
        assert server_of(reward, before) == server  # none of them cost us a new process


@needs_math_verify
def test_an_expected_answer_that_takes_too_long_does_so_once():
    before = children()
    with MathAnswer(1) as reward:
        server = server_of(reward, before)
        slow = Task(expected="(10^{9})!")
        assert reward(say(boxed("1")), slow).verdict == "tests_failed"
        so_far = spent_seconds(server)
        assert [reward(say(boxed(str(n))), slow).verdict for n in range(2, 30)] == ["tests_failed"] * 28
        assert reward(say(boxed("(10^{9})!")), slow).value == 1.0
        assert spent_seconds(server) == so_far


@needs_math_verify
def test_what_compares_has_no_environment_no_files_of_ours_and_no_rights(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "of the caller")
    before = children()
    with MathAnswer(1) as reward, (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        server = server_of(reward, before)
        assert b"SECRET" not in (server / "environ").read_bytes()
        opened = {os.readlink(link) for link in (server / "fd").iterdir()}
        assert all(name.startswith("pipe:") or name == "/dev/null" for name in opened)
        status = dict(line.split(":\t", 1) for line in (server / "status").read_text().splitlines() if ":\t" in line)
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"] == "1"


ATTEMPTS = """
import json, os, signal, socket, sys
sys.path[:] = json.loads(sys.argv[1])
from rewards.mathematics.isolation import confine
missing = confine([], 1024)
done = []
def attempt(name, do):
    try:
        do()
    except OSError:
        return
    done.append(name)
attempt("files", lambda: open("/etc/passwd").close())
attempt("files", lambda: open(sys.argv[2], "r+").close())
attempt("files", lambda: os.listdir("/"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3])), 5))
attempt("network", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)))
attempt("processes", lambda: os.kill(int(sys.argv[4]), 0))
attempt("rights", lambda: os.setuid(1))
print(json.dumps([missing, done, os.environ.get("SECRET")]), flush=True)
"""


def test_a_confined_process_reaches_no_file_no_network_and_nobody(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        arguments = [json.dumps(sys.path), str(secret), str(port), str(os.getpid())]
        command = [sys.executable, "-P", "-c", ATTEMPTS, *arguments]
        said = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=True).stdout
    missing, done, _ = json.loads(said)
    assert set(done) <= set(missing), said
    if os.geteuid() == 0:
        assert {"network", "processes"}.isdisjoint(missing)


@needs_math_verify
def test_megabytes_in_a_box_are_wrong(reward):
    for latex in (
        "1" * 4_000,
        "(" * 2_000 + "1" + ")" * 2_000,
        "x^{" * 1_000 + "2" + "}" * 1_000,
        "1+" * 5_000_000 + "1",
    ):
        assert reward(say(boxed(latex)), Task(expected="2")).value == 0.0
    assert reward(say(boxed("2")), Task(expected="2")).value == 1.0


@needs_math_verify
@pytest.mark.parametrize("expected", [r"\frac{", "}", r"\boxed{}", "$$", r"0.\overline{3}"])
def test_an_expected_answer_that_cannot_be_read_gives_no_signal(reward, expected):
    scored = reward(say(boxed("2")), Task(expected=expected))
    assert (scored.value, scored.verdict) == (None, "tests_failed")


@needs_math_verify
def test_no_answer_is_worth_nothing(reward):
    task = Task(expected="2")
    assert reward(say("2"), task).verdict == "no_answer"
    assert reward(say(r"\boxed{2", truncated=True), task).verdict == "truncated"
    with pytest.raises(ValueError, match="expected answer"):
        reward(say(boxed("2")), Task(expected=" "))


@needs_math_verify
def test_processes_that_are_killed_make_no_answer_wrong():
    with MathAnswer(1) as reward:
        assert reward(say(boxed("2")), Task(expected="2")).value == 1.0
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        assert reward(say(boxed("3")), Task(expected="3")).value == 1.0


@needs_math_verify
@pytest.mark.parametrize("words", [[], ["ready"], ["ready", "read"], ["ready", "unreadable"]])
def test_a_process_that_dies_again_and_again_gives_no_signal(words, tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    child.write_text(
        "".join(f"print({word!r}, flush=True)\n" for word in words) + "import os\nos.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setattr(processes, "_CHILD", child)
    with MathAnswer(1) as reward:
        scored = reward(say(boxed("4")), Task(expected="4"))
    assert (scored.value, scored.verdict) == (None, "checker_failed")
    assert scored.detail


@needs_math_verify
def test_its_processes_end_with_it():
    before = children()
    with MathAnswer(2) as reward:
        reward(say(boxed("2")), Task(expected="2"))
        assert len(children() - before) == 1
    end = time.monotonic() + 20
    while children() - before:
        assert time.monotonic() < end
        time.sleep(0.02)
