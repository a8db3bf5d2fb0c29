"""What a user gives instead of what a protocol says.

MERGED How one suite is measured, once it is settled.

MERGED A protocol with what the user gives instead: how one suite is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from curate.errors import CurateError
from curate.prompt import PromptFormat
from train.evaluation.extraction.registry import DEFAULT as USUAL_EXTRACTION
from train.evaluation.protocols.protocol import DEFAULT, PromptForm, PromptStyle, Protocol, SuiteSettings
from train.evaluation.protocols.registry import COMPLETION_FORMS, FORMS, OWN_FORM, PROTOCOLS
from train.sampling.protocol import SamplingParams

CHAT, COMPLETE = "chat", "complete"


@dataclass(frozen=True, slots=True)
class ProtocolOverrides:
    """What a user gives instead of what a protocol says; None: nothing. The names are those of Setting.

    form     the name of a form, or OWN
    mode     CHAT or COMPLETE
    prefill  beginning of the model's own message
    """

    k: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    window: str | None = None
    stop: tuple[str, ...] | None = None
    extraction: str | None = None
    form: str | None = None
    mode: str | None = None
    prefill: str | None = None


def check_overrides(overrides: ProtocolOverrides, prompt: PromptFormat) -> None:
    """Raise CurateError for what contradicts itself."""
    if overrides.mode == COMPLETE:
        given = {
            "--system": prompt.system,
            "--prefill": overrides.prefill,
            "--template-arg": prompt.template_arguments,
            "--form": overrides.form,
        }
        for option, value in given.items():
            if value:
                raise CurateError(
                    f"{option} is for chats, and with --mode complete the model continues plain text. "
                    f"Leave {option} out, or give --mode chat."
                )
    if overrides.form and prompt.template:
        raise CurateError("--form and --template both say how the model is asked. Give one of them.")
    if overrides.prefill == "":
        raise CurateError("--prefill is empty. For models that think first, give --form evalplus-thinking.")


_LONGEST = 40  # characters of a text in a line


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How one suite is measured.

    suite_settings  what is used
    protocol        the table of the protocol; without a protocol, None
    overrides       what is used in place of what that table says, by the same names
    """

    suite_settings: SuiteSettings
    style: PromptStyle
    protocol: Mapping[str, Any] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sampling(self) -> SamplingParams:
        used = self.suite_settings
        return SamplingParams(used.temperature, used.top_p, used.max_tokens, stop=used.stop)

    def as_table(self) -> dict[str, Any]:
        """Return what a result keeps as JSON values: nothing if there is no protocol and all is as usual."""
        if self.protocol is not None:
            return {"table": dict(self.protocol), "overrides": dict(self.overrides)}
        if self.style == PromptStyle() and not self.suite_settings.stop:
            return {}
        return {"table": {"name": None, **setting_as_table(self.suite_settings, self.style)}, "overrides": {}}

    def summary_line(self) -> str:
        """Return a line that says which protocol is used, and what in place of its settings; "" without a protocol."""
        if self.protocol is None:
            return ""
        instead = [
            f"{name} {_shown(used)}" + (f" instead of {_shown(self.protocol[name])}" if name in self.protocol else "")
            for name, used in self.overrides.items()
        ]
        return "; ".join([f"protocol {self.protocol['name']}, form {self.protocol['form']}", *instead])


def setting_as_table(setting: SuiteSettings, style: PromptStyle) -> dict[str, Any]:
    """Return a setting as JSON values."""
    numbers = {
        name.name: getattr(setting, name.name) for name in fields(SuiteSettings) if name.name not in ("form", "stop")
    }
    return {
        "form": OWN_FORM if setting.form is None else setting.form.name,
        "mode": COMPLETE if style.skip_chat_template else CHAT,
        "prefill": style.prefill or None,
        **numbers,
        "stop": list(setting.stop),
    }


def _shown(value: object) -> str:
    if value in (None, "", []):
        return "none"
    text = repr(value) if isinstance(value, list | dict) or "\n" in str(value) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_FENCE, _CLOSED = "```", "\n```\n"


def resolve_settings(
    protocol: str | None, suite: str, user_overrides: ProtocolOverrides, prompt: PromptFormat
) -> EvaluationSettings:
    """Return how a suite is measured.

    protocol   the name of a protocol; None: the usual settings
    suite      the name of the suite; empty: it is not named
    prompt     the system prompt, the template and its arguments that the user gives

    Raises CurateError if the protocol or form does not cover the suite, or if options conflict.
    """
    check_overrides(user_overrides, prompt)
    named = None if protocol is None else PROTOCOLS[protocol]
    official = DEFAULT if named is None else _setting(named, suite)
    numbers = {
        name: getattr(user_overrides, name)
        for name in ("k", "temperature", "top_p", "max_tokens", "window")
        if getattr(user_overrides, name) is not None
    }
    form = _form(official, suite, user_overrides, prompt)
    used, style = _complete(replace(official, form=form, **numbers), user_overrides)
    if named is None:
        return EvaluationSettings(used, style)
    table = setting_as_table(*_complete(official, ProtocolOverrides()))
    here = {
        **setting_as_table(used, style),
        **{name: value for name, value in prompt.as_table().items() if value},
    }
    overrides = {name: value for name, value in here.items() if value != table.get(name)}
    return EvaluationSettings(used, style, {"name": named.name, "source": named.source, **table}, overrides)


def _setting(protocol: Protocol, suite: str) -> SuiteSettings:
    if not suite:
        raise CurateError(f"--protocol {protocol.name} needs a named suite: --suite NAME=PATH in place of --data PATH.")
    if suite in protocol.settings:
        return protocol.settings[suite]
    others = [other.name for other in PROTOCOLS.values() if suite in other.settings]
    choose = f", or choose {' or '.join(others)}" if others else ""
    raise CurateError(
        f"the protocol {protocol.name} says nothing about {suite}; it is for {', '.join(protocol.settings)}. "
        f"Leave --protocol out for {suite}{choose}."
    )


def _form(official: SuiteSettings, suite: str, overrides: ProtocolOverrides, prompt: PromptFormat) -> PromptForm | None:
    """Return the form of the prompt; None: our own, with the template if there is one."""
    if prompt.template:
        return None
    if overrides.mode == COMPLETE:
        for form in COMPLETION_FORMS:
            if suite in form.suites:
                return form
        begun = ", ".join(name for form in COMPLETION_FORMS for name in form.suites)
        raise CurateError(
            f"--mode complete knows how to begin a program for {begun}, but not for {suite or 'a dataset'}. Give the "
            "text that the model continues: --template FILE."
        )
    if overrides.form is None:
        return official.form
    if overrides.form == OWN_FORM:
        return None
    form = FORMS[overrides.form]
    if suite not in form.suites:
        able = [name for name, other in FORMS.items() if suite in other.suites]
        raise CurateError(
            f"the form {form.name} is for {', '.join(form.suites)}, not for {suite or 'rows without a named suite'}. "
            f"Choose --form {' or '.join([*able, OWN_FORM])}."
        )
    return form


def _complete(setting: SuiteSettings, overrides: ProtocolOverrides) -> tuple[SuiteSettings, PromptStyle]:
    """Return the setting with its stops and extraction, in which form and user have their say, and its style."""
    form = setting.form
    stop = (
        (*setting.stop, *(form.stop if form else ())) if overrides.stop is None else tuple(filter(None, overrides.stop))
    )
    extraction = overrides.extraction or (form.extraction if form else "") or setting.extraction or USUAL_EXTRACTION
    prefill = overrides.prefill or ""
    closes = _FENCE in prefill and any(_FENCE in text for text in stop)
    style = PromptStyle(
        form,
        skip_chat_template=overrides.mode == COMPLETE,
        prefill=prefill,
        answer_suffix=_CLOSED if closes else "",
        extraction=extraction,
        test_seconds=setting.test_seconds,
    )
    return replace(setting, stop=stop, extraction=extraction), style


def restore_style(recorded: Mapping[str, Any], suite: str) -> PromptStyle:
    """Return the style of prompts and answers that a result file records.

    recorded  what EvaluationSettings.as_table returned
    suite     the name of the suite that is read now, to which the form may say nothing
    """
    used = {**recorded.get("table", {}), **recorded.get("overrides", {})}
    plain = used.get("mode") == COMPLETE
    known = COMPLETION_FORMS if plain else FORMS.values()
    form = next((form for form in known if form.name == used.get("form") and suite in form.suites), None)
    overrides = ProtocolOverrides(
        stop=tuple(used.get("stop") or ()),
        extraction=used.get("extraction"),
        mode=used.get("mode"),
        prefill=used.get("prefill"),
    )
    return _complete(SuiteSettings(form=form, test_seconds=used.get("test_seconds")), overrides)[1]
