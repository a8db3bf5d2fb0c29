"""The model that `curate evaluate` asks."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curate.prompt import PromptFormat
    from train.engine_options import EngineOptions
    from train.evaluation.exercise import Exercise
    from train.evaluation.results.cost import Prices
    from train.sampling.protocol import Sampler


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A model, and how it is run.

    base_url  address of a server; None: it is run here
    prices    of its tokens; None: not known
    """

    name: str
    base_url: str | None
    engine: "EngineOptions"
    prompt: "PromptFormat"
    prices: "Prices | None" = None

    def check(self) -> None:
        """Raise TrainError if there is no such model here, or if the options are not for it."""
        from train.sampling.model_name import check_model

        if self.base_url is not None:
            self.engine.server_concurrency()
        else:
            check_model(self.name, self.engine.vllm.get("revision"))

    def check_chat(self, exercises: "Iterable[Exercise]") -> None:
        """Raise SamplerError if the model would be asked in a chat and cannot chat, as far as its files here say."""
        from train.sampling.chat_template_check import check_chat_template

        chats = any(isinstance(one.prompt, list) for one in exercises)
        if chats and self.base_url is None and "tokenizer" not in self.engine.vllm:
            check_chat_template(self.name, self.engine.vllm.get("revision"))

    @contextmanager
    def open(self) -> "Iterator[Sampler]":
        """Load the model. Raises SamplerError."""
        from train.sampling.open_sampler import open_sampler

        sampler = open_sampler(self.name, self.base_url, self.engine, self.prompt.template_arguments)
        with closing(sampler):
            yield sampler
