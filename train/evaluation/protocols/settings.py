"""Protocols: the settings of published evaluations, by suite.

deepcoder  DeepCoder's scripts, with one sample of each LiveCodeBench problem. Its HumanEval+ prompt is not published;
           our own form replaces it. AReaL instead took 32 samples of at most 32,768 tokens
lcb        LiveCodeBench's own runner, for chat models. Completions end at the first "###" and after 2000 tokens;
           models that think first need other values for both
evalplus   EvalPlus: one greedy completion of at most 768 tokens. Models that think first need the form
           evalplus-thinking and more tokens; base models need the mode "complete"
lighteval-0.10
           lighteval's tasks of early 2025, as in open-r1's evaluation of DeepSeek-R1's distilled models. AIME 2025 has
           the settings of AIME 2024
lighteval-0.13
           lighteval's current tasks: one greedy completion in mathematics, and 16 samples for LiveCodeBench, at the
           temperature of lighteval's example. lighteval itself does not limit the tokens in AIME
evalchemy  evalchemy's tasks, as in INTELLECT-2's evaluation. Its LiveCodeBench problems are in release 5 but not in
           release 2; only private tests judge completions
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from train.evaluation.judges.extraction import DEFAULT_RULE, EVALPLUS
from train.evaluation.protocols import forms
from train.evaluation.protocols.forms import COMPLETION_FORMS, FORMS, OWN, PromptForm, Statement, make_chat
from train.sampling.protocol import SamplingParams

CHAT, COMPLETE = "chat", "complete"
OWN_FORM = OWN.name
_FENCE = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """The settings of a suite: the form of the prompt, sampling, and extraction.

    The defaults apply to `curate evaluate` without a protocol. Results list the settings in this order.

    mode                CHAT, or COMPLETE: the model continues plain text, without its chat template
    prefill             beginning of the assistant message; empty: the form's prefill
    temperature, top_p  sampling params; there is no top_k
    max_tokens          maximum length of a completion, thinking included
    k                   samples of each problem
    extraction          rule that extracts the program: one of judges.extraction.RULES
    window              inclusive range of contest dates; empty: all
    test_seconds        time limit of each test, or of each call of a function; None: the suite's own limit
    stop                texts that end a completion; a protocol adds those of the form
    """

    form: PromptForm = OWN
    mode: str = CHAT
    prefill: str = ""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 16384
    k: int = 8
    extraction: str = DEFAULT_RULE
    window: str = ""
    test_seconds: float | None = None
    stop: tuple[str, ...] = ()

    def render(self, prompt: PromptFormat, statement: Statement, default_prompt: Chat) -> tuple[Chat | str, str, str]:
        """Return the prompt, and the texts that precede and follow the completion for the judge.

        prompt          the user's format; its system prompt overrides the form's
        default_prompt  messages in our own form
        """
        form = self.form
        if self.mode == COMPLETE:
            text = default_prompt[-1]["content"] if form.format_text is None else form.format_text(statement)
            return text, text if form.begins_program else "", ""
        messages = default_prompt
        if form.format_text is not None:
            messages = make_chat(prompt.system or form.system, form.format_text(statement))
        prefill = self.prefill or form.prefill
        if not prefill:
            return messages, "", ""
        if self.extraction == EVALPLUS and not self.prefill:  # EvalPlus ignores the prefill
            return [*messages, {"role": "assistant", "content": prefill}], "", ""
        closes_block = _FENCE in self.prefill and any(_FENCE in text for text in self.stop)
        suffix = (forms.BLOCK_END if closes_block else "") if self.prefill else form.answer_suffix
        return [*messages, {"role": "assistant", "content": prefill}], prefill, suffix

    def as_table(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"form": self.form.name, "prefill": self.prefill or None, "stop": list(self.stop)}


DEFAULT = SuiteSettings()


@dataclass(frozen=True, slots=True)
class Protocol:
    """A set of published settings, for some suites.

    name    command-line name
    source  publisher and version of the settings
    """

    name: str
    source: str
    settings: Mapping[str, SuiteSettings]


_DEEPCODER = SuiteSettings(max_tokens=65536, k=1, extraction="rllm")
_DEEPSCALER = SuiteSettings(max_tokens=32768, k=16, form=forms.DEEPSCALER)
_EVALPLUS = SuiteSettings(temperature=0.0, max_tokens=768, k=1, form=forms.EVALPLUS, extraction=EVALPLUS)
_OPEN_R1 = SuiteSettings(max_tokens=32768, form=forms.LIGHTEVAL)
_LIGHTEVAL_LCB = replace(_OPEN_R1, k=16, form=forms.DEEPSEEK_R1, extraction="lcb", test_seconds=6.0)
_LIGHTEVAL_013 = SuiteSettings(temperature=0.0, top_p=1.0, max_tokens=32768, k=1)
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
            "lighteval-0.10",
            "open-r1 with lighteval 0.10",
            {
                **dict.fromkeys(("aime24", "aime25"), replace(_OPEN_R1, k=64)),
                "math500": replace(_OPEN_R1, k=4),
                "lcb": _LIGHTEVAL_LCB,
            },
        ),
        Protocol(
            "lighteval-0.13",
            "lighteval 0.13.0",
            {
                **dict.fromkeys(("aime24", "aime25"), replace(_LIGHTEVAL_013, form=forms.LIGHTEVAL_013_AIME)),
                "math500": replace(_LIGHTEVAL_013, form=forms.LIGHTEVAL_013_MATH500),
                "lcb": _LIGHTEVAL_LCB,
            },
        ),
        Protocol(
            "evalchemy",
            "mlfoundations/evalchemy@2c98339",
            {
                **dict.fromkeys(("aime24", "aime25"), _EVALCHEMY),
                "lcb": replace(_EVALCHEMY, k=3, form=forms.EVALCHEMY_CODE, extraction="evalchemy", test_seconds=6.0),
            },
        ),
    )
}

_MAX_SHOWN = 40  # maximum number of characters of a value in a message
# Settings on which prompts and verdicts depend.
_CONTENT_SETTINGS = ("form", "mode", "prefill", "extraction", "test_seconds", "stop")


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """The resolved settings of one suite.

    protocol   table of the protocol; None: no protocol
    overrides  the user's values that differ from the protocol's
    """

    suite_settings: SuiteSettings
    protocol: Mapping[str, Any] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sampling(self) -> SamplingParams:
        used = self.suite_settings
        return SamplingParams(used.temperature, used.top_p, used.max_tokens, stop=used.stop)

    def as_table(self) -> dict[str, Any]:
        """Return the section `protocol` of a result, as JSON values; empty for the default settings."""
        if self.protocol is not None:
            return {"table": dict(self.protocol), "overrides": dict(self.overrides)}
        used = self.suite_settings
        if all(getattr(used, name) == getattr(DEFAULT, name) for name in _CONTENT_SETTINGS):
            return {}
        return {"table": {"name": None, **used.as_table()}, "overrides": {}}

    def format_summary_line(self) -> str:
        """Return a line with the protocol and its overrides; "" without a protocol."""
        if self.protocol is None:
            return ""
        overrides = [
            f"{name} {format_setting(used)}"
            + (f" instead of {format_setting(self.protocol[name])}" if name in self.protocol else "")
            for name, used in self.overrides.items()
        ]
        return "; ".join([f"protocol {self.protocol['name']}, form {self.protocol['form']}", *overrides])


def format_setting(value: object) -> str:
    if value in (None, "", []):
        return "none"
    text = repr(value) if isinstance(value, list | dict) or "\n" in str(value) else str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def resolve_settings(
    protocol: str | None, suite: str, overrides: Mapping[str, Any], prompt: PromptFormat
) -> EvaluationSettings:
    """Resolve the settings of a suite.

    protocol   name of a protocol; None: the defaults
    suite      name of the suite; empty with --data
    overrides  the user's values by field of SuiteSettings, None if unset; the form is a name, or OWN_FORM
    prompt     the user's system prompt, template and template arguments

    Raises CurateError if the protocol or form does not cover the suite, or if options conflict.
    """
    overrides = {name: value for name, value in overrides.items() if value is not None}
    _check_options(overrides, prompt)
    official = DEFAULT if protocol is None else _select_settings(protocol, suite)
    used = _merge(official, overrides | {"form": _choose_form(official, suite, overrides, prompt)})
    if protocol is None:
        return EvaluationSettings(used)
    table = _merge(official, {}).as_table()
    effective = used.as_table() | {name: value for name, value in prompt.as_table().items() if value}
    changed = {name: value for name, value in effective.items() if value != table.get(name)}
    return EvaluationSettings(used, {"name": protocol, "source": PROTOCOLS[protocol].source, **table}, changed)


def _check_options(overrides: Mapping[str, Any], prompt: PromptFormat) -> None:
    if overrides.get("mode") == COMPLETE:
        for_chats = {
            "--system": prompt.system,
            "--prefill": overrides.get("prefill"),
            "--template-arg": prompt.template_arguments,
            "--form": overrides.get("form"),
        }
        for option, value in for_chats.items():
            if value:
                raise CurateError(
                    f"{option} is for chats, but with --mode complete the model continues plain text. "
                    f"Leave {option} out, or give --mode chat."
                )
    if overrides.get("form") and prompt.template:
        raise CurateError("--form and --template both set the prompt. Give one of them.")
    if overrides.get("prefill") == "":
        raise CurateError("--prefill is empty. For models that think first, give --form evalplus-thinking.")


def _select_settings(protocol: str, suite: str) -> SuiteSettings:
    if not suite:
        raise CurateError(f"--protocol {protocol} needs a named suite: --suite NAME=PATH instead of --data PATH.")
    settings = PROTOCOLS[protocol].settings
    if suite in settings:
        return settings[suite]
    others = [name for name, other in PROTOCOLS.items() if suite in other.settings]
    choose = f", or choose {' or '.join(others)}" if others else ""
    raise CurateError(
        f"the protocol {protocol} does not cover {suite}; it is for {', '.join(settings)}. "
        f"Leave --protocol out for {suite}{choose}."
    )


def _choose_form(official: SuiteSettings, suite: str, overrides: Mapping[str, Any], prompt: PromptFormat) -> PromptForm:
    if prompt.template or overrides.get("form") == OWN_FORM:
        return OWN
    if overrides.get("mode") == COMPLETE:
        form = next((form for form in COMPLETION_FORMS if suite in form.suites), None)
        if form is not None:
            return form
        suites = ", ".join(name for form in COMPLETION_FORMS for name in form.suites)
        raise CurateError(
            f"--mode complete can begin a program for {suites}, but not for {suite or 'a dataset'}. Give the "
            "text that the model continues: --template FILE."
        )
    if "form" not in overrides:
        return official.form
    form = FORMS[overrides["form"]]
    if suite not in form.suites:
        choices = [name for name, other in FORMS.items() if suite in other.suites]
        raise CurateError(
            f"the form {form.name} is for {', '.join(form.suites)}, not for {suite or 'rows without a named suite'}. "
            f"Choose --form {' or '.join([*choices, OWN_FORM])}."
        )
    return form


def _merge(official: SuiteSettings, overrides: Mapping[str, Any]) -> SuiteSettings:
    """Apply the user's overrides, then the stops and the extraction rule of the form.

    EvalPlus's rule also handles programs without fences, so EvalPlus's protocol keeps it in the mode "complete".
    """
    used = replace(official, **overrides)
    stop = tuple(filter(None, used.stop)) if "stop" in overrides else (*official.stop, *used.form.stop)
    by_form = "" if used.form.begins_program and official.extraction == EVALPLUS else used.form.extraction
    return replace(used, stop=stop, extraction=overrides.get("extraction") or by_form or official.extraction)


def restore_settings(recorded: Mapping[str, Any], suite: str) -> SuiteSettings:
    """Restore the settings in a result file.

    recorded  table of EvaluationSettings.as_table
    suite     name of the suite; the recorded form applies only if it supports this suite
    """
    used = {**recorded.get("table", {}), **recorded.get("overrides", {})}
    known = {name: used[name] for name in DEFAULT.as_table() if used.get(name) is not None}
    forms = COMPLETION_FORMS if used.get("mode") == COMPLETE else FORMS.values()
    form = next((form for form in forms if form.name == used.get("form") and suite in form.suites), OWN)
    return _merge(DEFAULT, known | {"form": form, "stop": tuple(used.get("stop") or ())})
