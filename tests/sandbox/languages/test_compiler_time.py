"""A compiler gets ten seconds of processor time."""

import pytest

from sandbox import Case, Limits, Program, Sandbox, Suite, Verdict

pytestmark = [pytest.mark.quiet, pytest.mark.thorough]


def test_a_compiler_gets_ten_seconds_of_processor_time() -> None:
    program = Program(f"int main() {{ return {'(' * 100_000}", "cpp")
    suite = Suite([Case("", "7")], limits=Limits(wall_seconds=0.3, memory_mb=64))
    with Sandbox(workers=1) as box:  # a new one, since it measures the machine's speed at a compiler timeout
        judgement = box.judge(program, suite)
    assert judgement.verdict is Verdict.COMPILE_ERROR
    assert judgement.cases[0].cpu_seconds < 11
    assert "timed_out" in judgement.cases[0].detail
