"""Protocols as a table: for each of their suites, the settings with which published numbers were measured.

deepcoder  DeepCoder's scripts. One sample of each problem of LiveCodeBench, so a run of 279 problems has a standard
           error of 2.9 points. The prompt of its HumanEval+ is not published, so it is asked in our own form. AReaL
           took 32 samples of at most 32,768 tokens instead
lcb        LiveCodeBench's own runner, for models of chat in general. Answers end at the first "###", which headings of
           Markdown contain, and after 2000 tokens; models that think first need other values for both
evalplus   EvalPlus's: one greedy answer of at most 768 tokens. Models that think first need the form evalplus-thinking
           and more tokens; base models need the mode "complete"
lighteval  lighteval's, as open-r1 measured DeepSeek-R1's distilled models. AIME 2025, which was not measured, is asked
           as AIME 2024
evalchemy  evalchemy's, as INTELLECT-2 was measured. Its problems of LiveCodeBench are those of release 5 that release 2
           lacks, of which it uses the private tests alone
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from curate.prompt import Chat, PromptFormat
from train.evaluation.extraction import DEFAULT as DEFAULT_EXTRACTION
from train.evaluation.protocols import forms
from train.evaluation.protocols.forms import OWN, PromptForm, Statement, two_messages

CHAT, COMPLETE = "chat", "complete"
OWN_FORM = OWN.name
_FENCE = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """How a suite is measured: how its problems are put to the model, and how answers are sampled and read.

    The defaults are what `curate evaluate` does without a protocol. Results list the settings in this order.

    form                form of the prompt
    mode                CHAT, or COMPLETE: the model continues plain text, without its chat template
    prefill             beginning of the model's own message; empty: what the form says
    temperature, top_p  of sampling; there is no top_k
    max_tokens          of an answer, thinking included
    k                   samples of each problem
    extraction          how the program is found in an answer: see train/evaluation/extraction.py
    window              first and last day of contests, both included; empty: all
    test_seconds        wall time of each test; None: the suite's own limit
    stop                texts that end an answer; those of the form are added when a protocol is applied
    """

    form: PromptForm = OWN
    mode: str = CHAT
    prefill: str = ""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 16384
    k: int = 8
    extraction: str = DEFAULT_EXTRACTION
    window: str = ""
    test_seconds: float | None = None
    stop: tuple[str, ...] = ()

    def render(self, prompt: PromptFormat, statement: Statement, default_prompt: Chat) -> tuple[Chat | str, str, str]:
        """Return what the model is asked, and the texts before and after its answer that are judged with it.

        prompt          its system prompt takes the place of the form's
        default_prompt  the messages of our own form
        """
        form = self.form
        if self.mode == COMPLETE:
            text = default_prompt[-1]["content"] if form.ask is None else form.ask(statement)
            return text, text if form.begins_program else "", ""
        messages = default_prompt
        if form.ask is not None:
            messages = two_messages(prompt.system or form.system, form.ask(statement))
        prefill = self.prefill or form.prefill
        if not prefill:
            return messages, "", ""
        closes_block = _FENCE in self.prefill and any(_FENCE in text for text in self.stop)
        suffix = (forms.BLOCK_END if closes_block else "") if self.prefill else form.answer_suffix
        return [*messages, {"role": "assistant", "content": prefill}], prefill, suffix

    def as_table(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"form": self.form.name, "prefill": self.prefill or None, "stop": list(self.stop)}


DEFAULT = SuiteSettings()


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol.

    name      what users type
    source    whose settings these are, with the version that was read
    settings  by the names of the suites
    """

    name: str
    source: str
    settings: Mapping[str, SuiteSettings]


_DEEPCODER = SuiteSettings(max_tokens=65536, k=1)
_DEEPSCALER = SuiteSettings(max_tokens=32768, k=16, form=forms.DEEPSCALER)
_EVALPLUS = SuiteSettings(temperature=0.0, max_tokens=768, k=1, form=forms.EVALPLUS)
_OPEN_R1 = SuiteSettings(max_tokens=32768, form=forms.LIGHTEVAL)
_EVALCHEMY = SuiteSettings(temperature=0.7, top_p=1.0, max_tokens=32768, k=10, form=forms.EVALCHEMY)
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "deepcoder",
            "agentica-project/rllm@874daa4",
            {
                "lcb": replace(_DEEPCODER, form=forms.DEEPCODER, window="2024-08-01..2025-01-31", test_seconds=6.0),
                "codeforces": replace(_DEEPCODER, k=8, form=forms.DEEPCODER),
                "humaneval+": _DEEPCODER,
                **dict.fromkeys(("aime24", "aime25", "math500"), _DEEPSCALER),
            },
        ),
        Protocol(
            "lcb",
            "LiveCodeBench@28fef95",
            {
                "lcb": SuiteSettings(
                    temperature=0.2,
                    max_tokens=2000,
                    k=10,
                    form=forms.LCB,
                    stop=("###",),
                    extraction="lcb",
                    test_seconds=6.0,
                )
            },
        ),
        Protocol("evalplus", "evalplus 0.3.1", dict.fromkeys(("humaneval", "humaneval+", "mbpp", "mbpp+"), _EVALPLUS)),
        Protocol(
            "lighteval",
            "open-r1 with lighteval",
            {
                **dict.fromkeys(("aime24", "aime25"), replace(_OPEN_R1, k=64)),
                "math500": replace(_OPEN_R1, k=4),
                "lcb": replace(_OPEN_R1, k=16, form=forms.DEEPSEEK_R1, extraction="lcb", test_seconds=6.0),
            },
        ),
        Protocol(
            "evalchemy",
            "mlfoundations/evalchemy@2c98339",
            {
                **dict.fromkeys(("aime24", "aime25"), _EVALCHEMY),
                "lcb": replace(_EVALCHEMY, k=3, form=forms.EVALCHEMY_CODE, test_seconds=6.0),
            },
        ),
    )
}
