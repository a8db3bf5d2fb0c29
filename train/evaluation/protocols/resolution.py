"""A protocol with what the user gives instead: how one suite is measured."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from curate.errors import CurateError
from curate.prompt import PromptFormat
from train.evaluation.extraction.registry import DEFAULT as USUAL_EXTRACTION
from train.evaluation.protocols.evaluation_settings import EvaluationSettings, setting_as_table
from train.evaluation.protocols.overrides import COMPLETE, ProtocolOverrides, check_overrides
from train.evaluation.protocols.prompt_form import PromptForm
from train.evaluation.protocols.prompt_style import PromptStyle
from train.evaluation.protocols.protocol import DEFAULT, Protocol, SuiteSettings
from train.evaluation.protocols.registry import COMPLETION_FORMS, FORMS, OWN_FORM, PROTOCOLS

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
