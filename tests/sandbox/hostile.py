"""The programs in attacks/ and attacks_cpp/, and some of sandbox.probes, with the suites that show that they fail.

Each file begins with a comment `expect:` and the verdicts that show that the attack failed. The program reads "1" or
"2" and prints ESCAPED if it got what it wanted, or it defines attack(x), which then returns "ESCAPED". ESCAPED is the
expected answer, so `accepted` would be an escape. Programs called expected_* look for the expected output itself, a
secret that is written nowhere else. Programs called message_* run twice, and the second run must learn nothing from the
first. Programs called late_* try to outlive their wall limit.
"""

import json
import secrets
from dataclasses import replace
from pathlib import Path

from sandbox import Case, Limits, Program, Suite
from sandbox.probes import find_submissions

LIMITS = Limits(wall_seconds=15, memory_mb=256)  # long: attacks are judged at the same time
SHORT = Limits(wall_seconds=0.5, memory_mb=256)
_FOLDER = Path(__file__).parent
_PROBES = {
    "forge/equality/mock/call": "runtime_error",
    "forge/equality/text/call": "wrong_answer",
    "forge/exits/os-exit/call": "runtime_error",
    "forge/exits/os-exit/stdin": "wrong_answer",
    "forge/exits/system-exit/call": "runtime_error",
}


def attacks(language: str) -> dict[str, tuple[Program, Suite]]:
    """Return the attacks in a language, "python" or "cpp", by the names of their files or probes."""
    files = _FOLDER.glob("attacks/*.py" if language == "python" else "attacks_cpp/*.cpp")
    found = {path.stem: _attack(path.stem, Program(path.read_text(), language)) for path in sorted(files)}
    return found | ({id: _probe(id, verdict) for id, verdict in _PROBES.items()} if language == "python" else {})


def _probe(id: str, verdict: str) -> tuple[Program, Suite]:
    submissions = find_submissions(id)
    return Program(f"# expect: {verdict}\n{submissions.program}"), replace(submissions.problem.suite, limits=LIMITS)


def _attack(name: str, program: Program) -> tuple[Program, Suite]:
    answer = f"SECRET{secrets.token_hex(16)}" if name.startswith("expected_") else "ESCAPED"
    limits = SHORT if name.startswith("late_") else LIMITS
    if "def attack(" in program.source:
        return program, Suite([Case("[1]", json.dumps(answer))], entry_point="attack", checker="tokens", limits=limits)
    inputs = "12" if name.startswith("message_") else "1"
    return program, Suite([Case(f"{number}\n", f"{answer}\n") for number in inputs], checker="tokens", limits=limits)


def verdicts_of_failure(attack: Program) -> set[str]:
    """Return the verdicts that show that an attack failed."""
    return set(attack.source.partition("\n")[0].partition("expect: ")[2].split(" or "))
