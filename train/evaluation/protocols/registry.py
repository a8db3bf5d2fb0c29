"""The settings of DeepCoder's evaluation, as its scripts have them.

One sample of each problem of LiveCodeBench, so a run of 279 problems has a standard error of 2.9 points. The prompt of
its HumanEval+ is not published, so it is asked in our own form. AReaL took 32 samples of at most 32,768 tokens instead.

MERGED The settings of evalchemy, by which INTELLECT-2 was measured.

Its problems of LiveCodeBench are those of release 5 that release 2 lacks, of which it uses the private tests alone.

MERGED The settings of EvalPlus: one greedy answer of at most 768 tokens.

Models that think first need the form evalplus-thinking and more tokens; base models need the mode "complete".

MERGED The settings of LiveCodeBench's own runner, for models of chat in general.

Answers end at the first "###", which headings of Markdown contain, and after 2000 tokens. Models that think first need
other values for both.

MERGED The settings with which open-r1 measured DeepSeek-R1's distilled models by lighteval.

AIME 2025, which was not measured, is asked as AIME 2024.

MERGED The protocols, and the forms of prompts, by the names that users type.
"""

from dataclasses import replace

from train.evaluation.protocols import forms
from train.evaluation.protocols.protocol import Protocol, SuiteSettings

_CODE = SuiteSettings(temperature=0.6, top_p=0.95, max_tokens=65536, k=1)
_MATHEMATICS = replace(_CODE, max_tokens=32768, k=16, form=forms.DEEPSCALER)

_DEEPCODER = Protocol(
    "deepcoder",
    "agentica-project/rllm@874daa4",
    {
        "lcb": replace(_CODE, form=forms.DEEPCODER, window="2024-08-01..2025-01-31", test_seconds=6.0),
        "codeforces": replace(_CODE, k=8, form=forms.DEEPCODER),
        "humaneval+": _CODE,
        "aime24": _MATHEMATICS,
        "aime25": _MATHEMATICS,
        "math500": _MATHEMATICS,
    },
)


_SETTING = SuiteSettings(temperature=0.7, top_p=1.0, max_tokens=32768)

_EVALCHEMY = Protocol(
    "evalchemy",
    "mlfoundations/evalchemy@2c98339",
    {
        "aime24": replace(_SETTING, k=10, form=forms.EVALCHEMY_MATHEMATICS),
        "aime25": replace(_SETTING, k=10, form=forms.EVALCHEMY_MATHEMATICS),
        "lcb": replace(_SETTING, k=3, form=forms.EVALCHEMY_CODE, test_seconds=6.0),
    },
)


_EVALPLUS_SETTING = SuiteSettings(temperature=0.0, top_p=0.95, max_tokens=768, k=1, form=forms.PREFILLED)

_EVALPLUS = Protocol(
    "evalplus", "evalplus 0.3.1", dict.fromkeys(("humaneval", "humaneval+", "mbpp", "mbpp+"), _EVALPLUS_SETTING)
)


_LCB = Protocol(
    "lcb",
    "LiveCodeBench@28fef95",
    {
        "lcb": SuiteSettings(
            temperature=0.2,
            top_p=0.95,
            max_tokens=2000,
            k=10,
            form=forms.GENERIC,
            stop=("###",),
            extraction="lcb",
            test_seconds=6.0,
        )
    },
)


_LIGHTEVAL_SETTING = SuiteSettings(temperature=0.6, top_p=0.95, max_tokens=32768)
_LIGHTEVAL_MATHEMATICS = replace(_LIGHTEVAL_SETTING, form=forms.LIGHTEVAL)

_LIGHTEVAL = Protocol(
    "lighteval",
    "open-r1 with lighteval",
    {
        "aime24": replace(_LIGHTEVAL_MATHEMATICS, k=64),
        "aime25": replace(_LIGHTEVAL_MATHEMATICS, k=64),
        "math500": replace(_LIGHTEVAL_MATHEMATICS, k=4),
        "lcb": replace(_LIGHTEVAL_SETTING, k=16, form=forms.DEEPSEEK_R1, extraction="lcb", test_seconds=6.0),
    },
)


PROTOCOLS = {protocol.name: protocol for protocol in (_DEEPCODER, _LCB, _EVALPLUS, _LIGHTEVAL, _EVALCHEMY)}
FORMS = {
    form.name: form
    for form in (
        forms.GENERIC,
        forms.DEEPSEEK_R1,
        forms.DEEPCODER,
        forms.EVALCHEMY_CODE,
        forms.PREFILLED,
        forms.THINKING,
        forms.DEEPSCALER,
        forms.LIGHTEVAL,
        forms.EVALCHEMY_MATHEMATICS,
    )
}
COMPLETION_FORMS = (
    forms.HUMANEVAL_COMPLETION,
    forms.MBPP_COMPLETION,
    forms.COMPLETION,
)  # for the mode "complete"
OWN_FORM = "curate"  # the name of our own form
