"""The settings of DeepCoder's evaluation, as its scripts have them.

One sample of each problem of LiveCodeBench, so a run of 279 problems has a standard error of 2.9 points. The prompt of
its HumanEval+ is not published, so it is asked in our own form. AReaL took 32 samples of at most 32,768 tokens instead.
"""

from dataclasses import replace

from train.evaluation.protocols.forms import livecodebench, mathematics
from train.evaluation.protocols.protocol import Protocol, SuiteSettings

_CODE = SuiteSettings(temperature=0.6, top_p=0.95, max_tokens=65536, k=1)
_MATHEMATICS = replace(_CODE, max_tokens=32768, k=16, form=mathematics.DEEPSCALER)

PROTOCOL = Protocol(
    "deepcoder",
    "agentica-project/rllm@874daa4",
    {
        "lcb": replace(_CODE, form=livecodebench.DEEPCODER, window="2024-08-01..2025-01-31", test_seconds=6.0),
        "codeforces": replace(_CODE, k=8, form=livecodebench.DEEPCODER),
        "humaneval+": _CODE,
        "aime24": _MATHEMATICS,
        "aime25": _MATHEMATICS,
        "math500": _MATHEMATICS,
    },
)
