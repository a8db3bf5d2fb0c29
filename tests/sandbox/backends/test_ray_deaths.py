"""Whatever dies on a cluster, no verdict is lost or doubled. Apart from test_ray.py, since these tests run alone."""

import itertools
import os
import signal
from typing import Any

import pytest
from echoes import ECHO, echo
from process_tree import alive, processes
from test_ray import SLOW_ECHO, supervisors, with_all_below
from test_survival import traces
from waiting import becomes

from sandbox import Program, Sandbox, SandboxError, Verdict
from sandbox.backends import _cluster

pytestmark = [pytest.mark.quiet, pytest.mark.thorough]


def kill_node_of(supervisor: int) -> None:
    for pid in (processes()[supervisor][0], supervisor):
        os.kill(pid, signal.SIGKILL)


def test_a_killed_supervisor_costs_no_verdict_and_leaves_nothing(cluster: Any) -> None:
    before = supervisors()
    seen: dict[int, Verdict] = {}
    with Sandbox(backend="ray", address=cluster.address) as own:
        victim = min(supervisors() - before)
        everything = with_all_below({victim})
        for index, judgement in own.judge_many((SLOW_ECHO, echo(n)) for n in range(60)):
            assert index not in seen
            seen[index] = judgement.verdict
            if len(seen) == 10:
                os.kill(victim, signal.SIGKILL)
        assert becomes(lambda: own.workers == 2)  # another one was started in its place
    assert len(seen) == 60
    assert set(seen.values()) == {Verdict.ACCEPTED}
    assert becomes(lambda: not alive(everything))
    assert becomes(lambda: not traces(everything))


def test_nodes_may_be_killed_and_others_join(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = supervisors()
    programs = [ECHO, SLOW_ECHO, Program("print(-1)")]
    seen: dict[int, Verdict] = {}
    monkeypatch.setattr(_cluster, "_NO_NODE_SECONDS", 3)
    with Sandbox(backend="ray", address=cluster.address) as own:
        first, second = supervisors() - before
        for index, judgement in own.judge_many((programs[n % 3], echo(n)) for n in range(90)):
            assert index not in seen
            seen[index] = judgement.verdict
            if len(seen) == 25:
                kill_node_of(first)
        assert len(seen) == 90
        assert {verdict for index, verdict in seen.items() if index % 3 == 2} == {Verdict.WRONG_ANSWER}
        assert {verdict for index, verdict in seen.items() if index % 3 != 2} == {Verdict.ACCEPTED}
        kill_node_of(second)
        with pytest.raises(SandboxError, match="has no nodes left"):
            list(own.judge_many((ECHO, echo(n)) for n in itertools.count()))
        for _ in range(2):
            cluster.add_node()
        assert becomes(lambda: own.workers == 2)
        assert own.judge(ECHO, echo(1)).accepted
