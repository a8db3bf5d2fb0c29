"""How one suite is measured, once it is settled."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from train.evaluation.protocols.overrides import CHAT, COMPLETE
from train.evaluation.protocols.prompt_style import PromptStyle
from train.evaluation.protocols.protocol import SuiteSettings
from train.evaluation.protocols.registry import OWN_FORM
from train.sampling.protocol import SamplingParams

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
