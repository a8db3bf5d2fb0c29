"""The settings of evalchemy, by which INTELLECT-2 was measured.

Its problems of LiveCodeBench are those of release 5 that release 2 lacks, of which it uses the private tests alone.
"""

from dataclasses import replace

from train.evaluation.protocols.forms import livecodebench, mathematics
from train.evaluation.protocols.protocol import Protocol, SuiteSettings

_SETTING = SuiteSettings(temperature=0.7, top_p=1.0, max_tokens=32768)

PROTOCOL = Protocol(
    "evalchemy",
    "mlfoundations/evalchemy@2c98339",
    {
        "aime24": replace(_SETTING, k=10, form=mathematics.EVALCHEMY),
        "aime25": replace(_SETTING, k=10, form=mathematics.EVALCHEMY),
        "lcb": replace(_SETTING, k=3, form=livecodebench.EVALCHEMY, test_seconds=6.0),
    },
)
