"""The learner: minibatches of scored completions in, better weights out.

One optimizer step per update. Its gradient is that of the whole minibatch: it does not depend on how sequences are
packed into rows, or rows shared out to ranks. With several ranks, rank 0 calls and all others `follow`.
"""

import copy
import math
import shutil
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train import config
from train.errors import LearnerError
from train.learning.loss import Logprobs, figures, loss, minibatch
from train.learning.model import Policy, layers, load, merged, weights
from train.learning.ranks import Ranks, whole
from train.learning.schedule import learning_rate
from train.learning.sequences import Row, Sequence, in_rows

_Key = tuple[tuple[int, ...], tuple[int, ...]]  # of a completion: its prompt's ids, and its own
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Learner:
    """temperature: the sampler's. total_updates: of the run, where the cosine ends. timeout_seconds: how long a rank
    waits for another, sampling included.

    Raises LearnerError where the model cannot be had, or the settings do not go together.
    """

    def __init__(
        self, model: config.Model, objective: config.Objective, optimizer: config.Optimizer, *, temperature: float,
        total_updates: int, seed: int, timeout_seconds: float = 14400.0,
    ) -> None:  # fmt: skip
        _check(objective)
        self._path, self._objective, self._settings = model.path, objective, optimizer
        self._total_updates = total_updates
        self._dtype = _DTYPES[model.dtype]
        self._ranks = Ranks(timeout_seconds)
        self.rank, self.n_ranks = self._ranks.rank, self._ranks.size
        self._device = self._ranks.device
        # A machine's memory holds the whole model once, not as often as it has GPUs.
        with self._ranks.named_errors(), self._ranks.in_turn():
            self._causal = load(model, seed=seed)
            self._policy = Policy(self._causal, self._dtype, temperature, autocast=self._ranks.size == 1)
            if self._ranks.size > 1:
                self._ranks.shard(self._policy, layers(self._causal), self._dtype)
            self._policy.to(self._device)
        self._trained = {name: each for name, each in self._causal.named_parameters() if each.requires_grad}
        decayed: dict[str, Any] = {"params": [each for each in self._trained.values() if each.ndim > 1]}
        norms_and_biases = {"params": [each for each in self._trained.values() if each.ndim < 2], "weight_decay": 0.0}
        self._optimizer = torch.optim.AdamW(
            [decayed, norms_and_biases],
            lr=optimizer.learning_rate,
            betas=optimizer.betas,
            weight_decay=optimizer.weight_decay,
            fused=self._device == "cuda",
        )
        self._updates = 0
        self._open = True
        self._reference: dict[str, Tensor] = {}
        self._old: dict[_Key, Tensor] = {}
        self._of_reference: dict[_Key, Tensor] = {}
        if objective.kl:
            self._refresh_reference()

    def follow(self) -> None:
        """What all ranks but 0 do: each call of rank 0, until it closes. Raises LearnerError where rank 0 does, and
        when it is gone."""
        with self._ranks.named_errors():
            while (call := self._ranks.hear()) is not None:
                name, arguments = call
                getattr(self, name)(*arguments)
            self._free()

    def logprobs(self, sequences: SequenceOf[Sequence]) -> list[Tensor]:
        """For each sequence, of its completion tokens under the weights as they are, after temperature."""
        made: list[Tensor] = self._everywhere("_logprobs", sequences)
        return made

    def begin_batch(self, sequences: SequenceOf[Sequence]) -> None:
        """Before the minibatches of a batch: what the objective wants to know under the weights that begin it. The
        batch before is forgotten."""
        keys = [(each.prompt_ids, each.token_ids) for each in sequences]
        self._old, self._of_reference = {}, {}
        if self._objective.old == "learner":
            self._old = dict(zip(keys, self.logprobs(sequences), strict=True))
        if self._objective.kl:
            of_reference = self._everywhere("_reference_logprobs", sequences)
            self._of_reference = dict(zip(keys, of_reference, strict=True))

    def update(self, sequences: SequenceOf[Sequence], *, most_tokens: int = 0) -> dict[str, float]:
        """One optimizer step on a minibatch; its figures, under TRL's names. most_tokens: the longest answer that was
        allowed, which the aggregation "constant_length" divides by.

        Where no token counts there is no step, and `skipped` is 1. Raises LearnerError where loss or gradient are not
        finite, before any weight is changed.
        """
        if self._objective.aggregation == "constant_length" and most_tokens < 1:
            raise LearnerError(
                "the aggregation constant_length divides by the longest answer allowed: give most_tokens"
            )
        keys = [(each.prompt_ids, each.token_ids) for each in sequences]
        try:
            old = [self._old[key] for key in keys] if self._objective.old == "learner" else None
            reference = [self._of_reference[key] for key in keys] if self._objective.kl else None
        except KeyError:
            raise LearnerError("a minibatch has completions that begin_batch was not given") from None
        made: dict[str, float] = self._everywhere("_update", sequences, old, reference, most_tokens)
        return made

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) as a sampler wants them: names as on the Hub, whole, LoRA's part added, in `dtype`."""
        if self._device == "cuda":
            torch.cuda.empty_cache()  # a sampler on the same GPU wants it next
        if self._ranks.size == 1:
            return weights(self._causal, self._dtype)
        return iter(self._everywhere("_gathered"))

    def refresh_reference(self) -> None:
        """The weights as they are become those that the objective's k3 is against (DeepSeekMath, iterative)."""
        self._everywhere("_refresh_reference")

    def state(self) -> dict[str, Any]:
        """All that the next update depends on, whole, on the processor; the same for any number of ranks. Nothing in
        it is random."""
        made: dict[str, Any] = self._everywhere("_state")
        return made

    def load_state(self, state: dict[str, Any]) -> None:
        """Raises LearnerError if it is another model's."""
        if {name: value.shape for name, value in state["weights"].items()} != {
            name: value.shape for name, value in self._trained.items()
        }:
            raise LearnerError(f"the checkpoint has the weights of another model than {self._path}")
        if self._objective.kl and not state["reference"]:
            raise LearnerError("the checkpoint has no reference: its run had no objective.kl, and this one has")
        outline = {key: list(value) if isinstance(value, dict) else value for key, value in state.items()}
        with self._ranks.named_errors():
            self._ranks.tell(("_load_state", (outline, None)))
            self._load_state(outline, state)

    def save_pretrained(self, folder: Path) -> None:
        """As transformers and vLLM read it, in `dtype`, with the tokenizer; all or nothing. Raises LearnerError."""
        from safetensors import SafetensorError
        from transformers import AutoTokenizer

        merged = self._everywhere("_merged")
        aside = folder.with_name(f".{folder.name}.writing")
        try:
            shutil.rmtree(aside, ignore_errors=True)
            self._causal.save_pretrained(aside, state_dict=merged)
            settings = copy.deepcopy(self._causal.config)
            settings.dtype = self._dtype  # not that of the weights in training
            settings.save_pretrained(aside)
            AutoTokenizer.from_pretrained(Path(self._path).expanduser()).save_pretrained(aside)
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise LearnerError(f"cannot write the model to {folder}: {error}. Make room, then --resume.") from error

    def close(self) -> None:
        """Give back the memory, and let the other ranks go."""
        if self.rank == 0 and self._open:
            self._open = False
            with self._ranks.named_errors():
                self._ranks.tell(None)
        self._free()

    def _everywhere(self, name: str, *arguments: Any) -> Any:
        try:
            with self._ranks.named_errors():
                self._ranks.tell((name, arguments))
                return getattr(self, name)(*arguments)
        except BaseException:
            self._open = False  # the other ranks have gone the same way, or wait where nobody comes
            raise

    def _free(self) -> None:
        for part in ("_policy", "_causal", "_optimizer", "_trained", "_reference", "_old", "_of_reference"):
            self.__dict__.pop(part, None)

    def _refresh_reference(self) -> None:
        self._reference = {name: each.detach().clone() for name, each in self._trained.items()}

    def _merged(self) -> dict[str, Tensor]:
        return {name: each.cpu() for name, each in merged(self._causal, self._dtype)}

    def _gathered(self) -> list[tuple[str, Tensor]]:
        # All of them before the first is used: gathering in turns with a sampler's own collectives locks up.
        return [(name, each.cpu()) for name, each in weights(self._causal, self._dtype)]

    def _state(self) -> dict[str, Any]:
        moments = {name: self._optimizer.state.get(each, {}) for name, each in self._trained.items()}
        return {
            "updates": self._updates,
            "weights": {name: _copy(each) for name, each in self._trained.items()},
            "moments": {f"{name}/{key}": _copy(value) for name, each in moments.items() for key, value in each.items()},
            "reference": {name: _copy(each) for name, each in self._reference.items()},
        }

    @torch.no_grad()
    def _load_state(self, outline: dict[str, Any], state: dict[str, Any] | None) -> None:
        """outline: the names in the state, and what is no tensor; the tensors come from rank 0."""

        def take(into: Tensor, kind: str, name: str) -> Tensor:
            self._ranks.spread(into, None if state is None else state[kind][name])
            return into

        self._updates = outline["updates"]
        for name, each in self._trained.items():
            take(each, "weights", name)
        self._optimizer.state.clear()
        for key in outline["moments"]:
            name, _, moment = key.rpartition("/")
            each = self._trained[name]
            empty = torch.zeros((), device=self._device) if moment == "step" else torch.zeros_like(each)
            self._optimizer.state[each][moment] = take(empty, "moments", key)
        self._reference = {
            name: take(torch.empty_like(self._trained[name]), "reference", name) for name in outline["reference"]
        }

    def _rows(self, sequences: SequenceOf[Sequence]) -> Iterator[Row]:
        """This rank's."""
        return in_rows(
            sequences,
            row_tokens=self._settings.row_tokens,
            ranks=self._ranks.size,
            rank=self._ranks.rank,
            device=self._device,
        )

    @torch.no_grad()
    def _logprobs(self, sequences: SequenceOf[Sequence]) -> list[Tensor]:
        lengths = [len(each.token_ids) for each in sequences]
        logp_T = torch.zeros(sum(lengths), device=self._device)
        for row in self._rows(sequences):
            logp_T[row.places_R], _ = self._policy(row)
        self._ranks.add_up(logp_T)
        return list(torch.split(logp_T.cpu(), lengths))

    def _reference_logprobs(self, sequences: SequenceOf[Sequence]) -> list[Tensor]:
        """The reference's weights and the trained ones change places for as long as it takes."""
        self._swap()
        try:
            return self._logprobs(sequences)
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, each in self._trained.items():
            mine = each.detach().clone()
            each.copy_(self._reference[name])
            self._reference[name].copy_(mine)

    def _update(
        self, sequences: SequenceOf[Sequence], old: Logprobs, reference: Logprobs, most_tokens: int
    ) -> dict[str, float]:
        of = minibatch(sequences, self._objective, old, reference, most_tokens=most_tokens, device=self._device)
        rate = learning_rate(self._updates, self._settings, total_updates=self._total_updates)
        made = {
            "learning_rate": rate,
            "num_tokens": float(sum(len(each.prompt_ids) + len(each.token_ids) for each in sequences)),
            "counted_tokens": of.n_tokens,
            "skipped": float(of.n_tokens == 0),
        }
        self._updates += 1
        if of.n_tokens == 0:
            return made
        logp_T, entropy_T = torch.zeros_like(of.old_T), torch.zeros_like(of.old_T)
        for row in self._rows(sequences):
            logp_R, entropy_R = self._policy(row, entropy_gradient=self._objective.entropy != 0)
            loss(logp_R, entropy_R, of.at(row.places_R), self._objective).backward()  # type: ignore[no-untyped-call]
            logp_T[row.places_R], entropy_T[row.places_R] = logp_R.detach(), entropy_R.detach()
        self._ranks.add_up(logp_T)
        self._ranks.add_up(entropy_T)
        made |= figures(logp_T, entropy_T, of, self._objective)
        parameters = [each for each in self._trained.values() if each.grad is not None]
        norm = whole(torch.nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None]))
        made["grad_norm"] = norm.item()
        if not math.isfinite(made["loss"]) or not math.isfinite(made["grad_norm"]):
            self._optimizer.zero_grad()
            self._updates -= 1
            raise LearnerError(
                f"update {self._updates}: the loss is {made['loss']:.3g}, its gradient's norm {made['grad_norm']:.3g}. "
                "The weights were not changed. A lower learning_rate, or dtype float32, may help."
            )
        torch.nn.utils.clip_grads_with_norm_(parameters, self._settings.clip_norm, norm)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        return made


def _check(objective: config.Objective) -> None:
    if objective.old == "sampler" and (objective.truncation or objective.mismatch_high):
        raise LearnerError(
            'truncation and mismatch_high compare the learner with the sampler: set objective.old = "learner"'
        )


def _copy(tensor: Tensor) -> Tensor:
    return whole(tensor).cpu().clone()
