"""What a protocol is: for each of its suites, the settings with which published numbers were measured."""

from collections.abc import Mapping
from dataclasses import dataclass

from train.evaluation.protocols.prompt_form import PromptForm


@dataclass(frozen=True, slots=True)
class SuiteSettings:
    """How a suite is measured. What is not a number here is what `curate evaluate` does without a protocol.

    temperature, top_p  of sampling; there is no top_k
    max_tokens          of an answer, thinking included
    k                   samples of each problem
    form                form of the prompt; None: ours
    stop                further texts that end an answer, beside those of the form
    extraction          how the program is found in an answer, unless the form decides that: see extraction/
    window              first and last day of contests, both included; empty: all
    test_seconds        wall time of each test; None: the suite's own limit
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 16384
    k: int = 8
    form: PromptForm | None = None
    stop: tuple[str, ...] = ()
    extraction: str = ""
    window: str = ""
    test_seconds: float | None = None


DEFAULT = SuiteSettings()


@dataclass(frozen=True, slots=True)
class Protocol:
    """name      what users type
    source    whose settings these are, with the version that was read
    settings  by the names of the suites
    """

    name: str
    source: str
    settings: Mapping[str, SuiteSettings]
