"""The meaning of a metric by its whole name: METRIC_DESCRIPTIONS has patterns."""

import re

from train.run.step_metrics import METRIC_DESCRIPTIONS

_SUITE = re.compile(r"^eval/[^/]+/")


def metric_description(name: str) -> str | None:
    """Return what a figure means, or None if it is not in METRIC_DESCRIPTIONS."""
    name = _SUITE.sub("eval/", name)
    patterns = ((re.escape(known).replace("NAME", "[^/]+"), text) for known, text in METRIC_DESCRIPTIONS.items())
    return next((text for pattern, text in patterns if re.fullmatch(pattern, name)), None)
