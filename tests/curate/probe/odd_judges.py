"""Targets that cannot be probed, or that fail now and then."""

import json
import os
import socket
import time


def returns_nothing(completion, tests):
    return None


def returns_text(completion, tests):
    return "1.0"


def returns_nan(completion, tests):
    return float("nan")


def returns_a_dictionary(completion, tests):
    return {"passed": True}


def returns_a_large_integer(completion, tests):
    return 10**400


def returns_one(prompts, completions, **columns):
    return 1.0


def raises_two_lines(completion, tests):
    raise ValueError("two\nlines")


def ends(completion, tests):
    os._exit(3)


def returns_two(prompts, completions, **columns):
    return [1.0, 1.0]


def always_one(completion, tests):
    return 1.0


def of_no_signature(x):
    return 1.0


def plain(completion, tests):
    """Knows the right program by its words."""
    return float("a * a + b * b" in completion)


def of_two_signatures(completion=None, tests=None, *, completions=(), **columns):
    return [plain(each, tests) for each in completions] or plain(completion, tests)


def reads_arguments(completion, tests):
    return plain(completion, [json.loads(test["input"]) for test in tests])


def loose(completion, tests):
    return float("a * a + b * b" in completion or ("return " in completion and "no answer" not in completion))


def fragile(completion, tests):
    """Ends its process, or hangs, on two kinds of answers."""
    if "SystemExit(0)" in completion:
        os._exit(3)
    if "sys.exit()" in completion:
        time.sleep(60)
    return plain(completion, tests)


_seen = set()


def spoiled(completion, tests):
    """Refuses everything after one kind of answer."""
    _seen.update({"SystemExit(0)"} if "SystemExit(0)" in completion else ())
    return 0.0 if _seen else plain(completion, tests)


def calls_a_server(completion, tests):
    with socket.create_connection(("127.0.0.1", 9)):
        return plain(completion, tests)


def wants_more(completion, tests, limits):
    return plain(completion, tests)


def verl(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": plain(solution_str, ground_truth), "acc": 1}


def trl(prompts, completions, ground_truth, **columns):
    return [plain(completion, truth) for completion, truth in zip(completions, ground_truth, strict=True)]


def rllm(task_info, action):
    return type("RewardOutput", (), {"reward": plain(action, task_info["ground_truth"])})()


async def waits(completion, tests):
    return plain(completion, tests)
