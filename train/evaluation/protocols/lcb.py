"""The settings of LiveCodeBench's own runner, for models of chat in general.

Answers end at the first "###", which headings of Markdown contain, and after 2000 tokens. Models that think first need
other values for both.
"""

from train.evaluation.protocols.forms import livecodebench
from train.evaluation.protocols.protocol import Protocol, SuiteSettings

PROTOCOL = Protocol(
    "lcb",
    "LiveCodeBench@28fef95",
    {
        "lcb": SuiteSettings(
            temperature=0.2,
            top_p=0.95,
            max_tokens=2000,
            k=10,
            form=livecodebench.GENERIC,
            stop=("###",),
            extraction="lcb",
            test_seconds=6.0,
        )
    },
)
