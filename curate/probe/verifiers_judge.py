"""The reward of an installed verifiers environment, as a judge for `curate probe`."""

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

from curate.probe.forms import UnusableTarget

_FIELDS = ("tests", "test_cases", "ground_truth", "answer", "verification_info", "info")


def open_environment(name: str) -> Callable[[str, Any], float | None]:
    """Return a function that scores a completion by an environment's first task, with the tests replaced.

    Raises UnusableTarget if verifiers or the environment is not installed, or its tasks have no field for tests.
    """
    try:
        import verifiers.v1 as vf
        from verifiers.v1.trace import AgentInfo, Trace, TraceTask
    except ImportError as error:
        raise UnusableTarget(f"verifiers cannot be imported: {error}; type: pip install 'verifiers>=0.4'") from error
    try:
        environment = vf.load_environment(vf.resolve_env_config({"taskset": {"id": name}}))
        task: Any = next(iter(environment.taskset))
    except (Exception, SystemExit) as error:
        reason = (str(error) or type(error).__name__).partition("\n")[0].rstrip(".")
        raise UnusableTarget(
            f"verifiers cannot load {name}: {reason}; install its package in this environment"
        ) from error
    field = next((field for field in _FIELDS if hasattr(task.data, field)), None)
    if field is None:
        raise UnusableTarget(
            f"tasks of {name} have no field for tests ({', '.join(_FIELDS)}); wrap its reward in "
            "score(completion, tests), as the guide shows"
        )
    is_text = isinstance(getattr(task.data, field), str)

    def score(completion: str, tests: Any) -> float | None:
        value = json.dumps(tests) if is_text and not isinstance(tests, str) else tests
        changed_task = copy.copy(task)
        changed_task.data = task.data.model_copy(update={field: value})
        trace_task = TraceTask(type=type(task).__name__, data=changed_task.data, key=task.key)
        trace: Any = Trace(task=trace_task, agent=AgentInfo(config=vf.AgentConfig()), root_reply=completion)
        asyncio.run(changed_task.score(trace))
        reward: float | None = trace.reward
        return reward

    return score
