"""Targets that cannot be probed, or that fail now and then."""

import os
import time


def returns_nothing(completion, tests):
    return None


def returns_text(completion, tests):
    return "1.0"


def returns_two(prompts, completions, **columns):
    return [1.0, 1.0]


def always_one(completion, tests):
    return 1.0


def of_no_signature(x):
    return 1.0


def plain(completion, tests):
    """Knows the right program by its words."""
    return float("a * a + b * b" in completion)


def loose(completion, tests):
    return float("a * a + b * b" in completion or ("return " in completion and "no answer" not in completion))


def fragile(completion, tests):
    """Ends its process, or hangs, on two kinds of answers."""
    if "SystemExit(0)" in completion:
        os._exit(3)
    if "sys.exit()" in completion:
        time.sleep(60)
    return plain(completion, tests)


def verl(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": plain(solution_str, ground_truth), "acc": 1}


def trl(prompts, completions, ground_truth, **columns):
    return [plain(completion, truth) for completion, truth in zip(completions, ground_truth, strict=True)]


def rllm(task_info, action):
    return type("RewardOutput", (), {"reward": plain(action, task_info["ground_truth"])})()


async def waits(completion, tests):
    return plain(completion, tests)
