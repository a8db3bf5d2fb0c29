"""How one suite is measured: a protocol, merged with what the user gives instead, and its record in a result."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from curate.errors import CurateError
from curate.prompt import PromptFormat
from train.evaluation.protocols.forms import COMPLETION_FORMS, FORMS, OWN, PromptForm
from train.evaluation.protocols.registry import COMPLETE, DEFAULT, OWN_FORM, PROTOCOLS, SuiteSettings
from train.sampling.protocol import SamplingParams

_MAX_SHOWN = 40  # characters of a text in a line
_HOW_READ = ("form", "mode", "prefill", "extraction", "test_seconds", "stop")  # what prompts and verdicts depend on


@dataclass(frozen=True, slots=True)
class ProtocolOverrides:
    """What a user gives instead of what a protocol says; None: nothing. The names are those of SuiteSettings.

    form     the name of a form, or OWN_FORM
    prefill  beginning of the model's own message; it cannot be empty
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


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How one suite is measured, and where that comes from.

    suite_settings  what is used
    protocol        the table of the protocol; None: no protocol
    overrides       what is used in place of what that table says, by the same names
    """

    suite_settings: SuiteSettings
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
        used = self.suite_settings
        if all(getattr(used, name) == getattr(DEFAULT, name) for name in _HOW_READ):
            return {}
        return {"table": {"name": None, **used.as_table()}, "overrides": {}}

    def summary_line(self) -> str:
        """Return a line that says which protocol is used, and what in place of its settings; "" without a protocol."""
        if self.protocol is None:
            return ""
        instead = [
            f"{name} {_shown(used)}" + (f" instead of {_shown(self.protocol[name])}" if name in self.protocol else "")
            for name, used in self.overrides.items()
        ]
        return "; ".join([f"protocol {self.protocol['name']}, form {self.protocol['form']}", *instead])


def _shown(value: object) -> str:
    if value in (None, "", []):
        return "none"
    text = repr(value) if isinstance(value, list | dict) or "\n" in str(value) else str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def resolve_settings(
    protocol: str | None, suite: str, user_overrides: ProtocolOverrides, prompt: PromptFormat
) -> EvaluationSettings:
    """Return how a suite is measured.

    protocol   the name of a protocol; None: the usual settings
    suite      the name of the suite; empty: it is not named
    prompt     the system prompt, the template and its arguments that the user gives

    Raises CurateError if the protocol or form does not cover the suite, or if options conflict.
    """
    _check_overrides(user_overrides, prompt)
    official = DEFAULT if protocol is None else _protocol_settings(protocol, suite)
    given = {name: value for name, value in asdict(user_overrides).items() if value is not None}
    used = _merge(official, given | {"form": _form(official, suite, user_overrides, prompt)})
    if protocol is None:
        return EvaluationSettings(used)
    table = _merge(official, {}).as_table()
    here = used.as_table() | {name: value for name, value in prompt.as_table().items() if value}
    overrides = {name: value for name, value in here.items() if value != table.get(name)}
    return EvaluationSettings(used, {"name": protocol, "source": PROTOCOLS[protocol].source, **table}, overrides)


def _check_overrides(overrides: ProtocolOverrides, prompt: PromptFormat) -> None:
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


def _protocol_settings(protocol: str, suite: str) -> SuiteSettings:
    if not suite:
        raise CurateError(f"--protocol {protocol} needs a named suite: --suite NAME=PATH in place of --data PATH.")
    settings = PROTOCOLS[protocol].settings
    if suite in settings:
        return settings[suite]
    others = [name for name, other in PROTOCOLS.items() if suite in other.settings]
    choose = f", or choose {' or '.join(others)}" if others else ""
    raise CurateError(
        f"the protocol {protocol} says nothing about {suite}; it is for {', '.join(settings)}. "
        f"Leave --protocol out for {suite}{choose}."
    )


def _form(official: SuiteSettings, suite: str, overrides: ProtocolOverrides, prompt: PromptFormat) -> PromptForm:
    """Return the form of the prompt; a template of the user's own is part of our own form."""
    if prompt.template or overrides.form == OWN_FORM:
        return OWN
    if overrides.mode == COMPLETE:
        form = next((form for form in COMPLETION_FORMS if suite in form.suites), None)
        if form is not None:
            return form
        begun = ", ".join(name for form in COMPLETION_FORMS for name in form.suites)
        raise CurateError(
            f"--mode complete knows how to begin a program for {begun}, but not for {suite or 'a dataset'}. Give the "
            "text that the model continues: --template FILE."
        )
    if overrides.form is None:
        return official.form
    form = FORMS[overrides.form]
    if suite not in form.suites:
        able = [name for name, other in FORMS.items() if suite in other.suites]
        raise CurateError(
            f"the form {form.name} is for {', '.join(form.suites)}, not for {suite or 'rows without a named suite'}. "
            f"Choose --form {' or '.join([*able, OWN_FORM])}."
        )
    return form


def _merge(official: SuiteSettings, given: Mapping[str, Any]) -> SuiteSettings:
    """Return the settings with what is given in their place. A form has its own stops, and may have its own rule."""
    used = replace(official, **given)
    stop = tuple(filter(None, used.stop)) if "stop" in given else (*official.stop, *used.form.stop)
    return replace(used, stop=stop, extraction=given.get("extraction") or used.form.extraction or official.extraction)


def restore_settings(recorded: Mapping[str, Any], suite: str) -> SuiteSettings:
    """Return the settings that a result file records.

    recorded  what EvaluationSettings.as_table returned
    suite     the name of the suite that is read now, to which the form may say nothing
    """
    used = {**recorded.get("table", {}), **recorded.get("overrides", {})}
    known = {name: used[name] for name in DEFAULT.as_table() if used.get(name) is not None}
    forms = COMPLETION_FORMS if used.get("mode") == COMPLETE else FORMS.values()
    form = next((form for form in forms if form.name == used.get("form") and suite in form.suites), OWN)
    return _merge(DEFAULT, known | {"form": form, "stop": tuple(used.get("stop") or ())})
