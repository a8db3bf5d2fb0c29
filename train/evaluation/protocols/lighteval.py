"""The settings with which open-r1 measured DeepSeek-R1's distilled models by lighteval.

AIME 2025, which was not measured, is asked as AIME 2024.
"""

from dataclasses import replace

from train.evaluation.protocols.forms import livecodebench, mathematics
from train.evaluation.protocols.protocol import Protocol, SuiteSettings

_SETTING = SuiteSettings(temperature=0.6, top_p=0.95, max_tokens=32768)
_MATHEMATICS = replace(_SETTING, form=mathematics.LIGHTEVAL)

PROTOCOL = Protocol(
    "lighteval",
    "open-r1 with lighteval",
    {
        "aime24": replace(_MATHEMATICS, k=64),
        "aime25": replace(_MATHEMATICS, k=64),
        "math500": replace(_MATHEMATICS, k=4),
        "lcb": replace(_SETTING, k=16, form=livecodebench.DEEPSEEK_R1, extraction="lcb", test_seconds=6.0),
    },
)
