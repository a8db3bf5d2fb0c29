"""The learner: minibatches of scored completions in, updated weights out.

An update is one optimizer step on the gradient of a whole minibatch, independent of how sequences are packed and
divided among ranks. With several ranks, rank 0 calls the methods, and all others run `serve_calls`.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train import config
from train.errors import LearnerError, UpdateError
from train.interrupts import defer_interrupts
from train.learning import model_files, sharded_state
from train.learning.loss import (
    Logprobs,
    Minibatch,
    build_minibatch,
    compute_loss,
    compute_minibatch_metrics,
    replace_old_logprobs,
)
from train.learning.policy import (
    Policy,
    bucket_parameter_names,
    check_trained_experts,
    export_tensors,
    find_layers,
    load_causal_lm,
)
from train.learning.ranks import CALL_TIMEOUT_SECONDS, RankGroup, copy_to_device, copy_to_host, gather_full_tensor
from train.learning.sequences import PackedRow, TrainingSequence, pack_into_rows, shard_row
from train.learning.sharded_state import step_in_shards

_Key = tuple[tuple[int, ...], tuple[int, ...]]  # token ids of a prompt and of its completion

# Prefixes of tensor names in a checkpoint.
_WEIGHTS, _MOMENTS, _REFERENCE, _UPDATES = "weights/", "moments/", "reference/", "updates"
_FREED = (
    "_policy", "_causal", "_optimizer", "_trained", "_reference", "_snapshot", "_saved", "_old_logprobs",
    "_reference_logprobs",
)  # fmt: skip
_MOMENT_NAMES = ("step", "exp_avg", "exp_avg_sq")  # of AdamW
_BUCKET_BYTES = 256 * 2**20  # size of the buckets in which weights are gathered for export


class Learner:
    """A model, its optimizer, and the objective's state between updates.

    temperature      the sampler's temperature
    total_updates    number of updates in the run, over which the cosine schedule decays
    timeout_seconds  time limit of a rank's wait for another rank within a call

    Raises LearnerError if the model cannot be loaded, or the settings contradict each other.
    """

    def __init__(
        self, model: config.ModelConfig, objective: config.ObjectiveConfig, optimizer: config.OptimizerConfig, *,
        temperature: float, total_updates: int, seed: int, ranks: config.ParallelismConfig | None = None,
        timeout_seconds: float = CALL_TIMEOUT_SECONDS,
    ) -> None:  # fmt: skip
        if objective.old == "sampler" and (objective.truncation or objective.mismatch_high):
            raise LearnerError(
                "objective.truncation and objective.mismatch_high compare the learner with the sampler, but "
                'objective.old = "sampler". Set objective.old = "learner"'
            )
        self._model, self._objective, self._settings = model, objective, optimizer
        self._total_updates = total_updates
        self._dtype: torch.dtype = getattr(torch, model.dtype)
        self._ranks = RankGroup(ranks or config.ParallelismConfig(), timeout_seconds)
        self.rank, self.n_ranks = self._ranks.rank, self._ranks.size
        self._device = self._ranks.device
        with self._ranks.translate_errors():
            self._causal = load_causal_lm(model, seed=seed) if self.n_ranks == 1 else self._build_empty_model()
            if self.n_ranks == 1 and self._device.type == "cuda" and self._dtype != torch.float32:
                check_trained_experts(self._causal, model.path)
            self._policy = Policy(
                self._causal, self._dtype, temperature, autocast=self.n_ranks == 1,
                exact_logits=model.head_dtype == "float32", context=self._ranks.get_context_group(),
            )  # fmt: skip
            if self.n_ranks > 1:
                self._ranks.shard(self._policy, find_layers(self._causal), self._dtype)
                model_files.load_shards(self._causal, model, seed=seed, device=self._device)
            self._policy.to(self._device)
        self._trained = {name: weight for name, weight in self._causal.named_parameters() if weight.requires_grad}
        trained = self._trained.values()
        matrices: dict[str, Any] = {"params": [weight for weight in trained if weight.ndim > 1]}
        norms_and_biases = {"params": [weight for weight in trained if weight.ndim < 2], "weight_decay": 0.0}
        self._optimizer = torch.optim.AdamW(
            [matrices, norms_and_biases], lr=optimizer.learning_rate, betas=optimizer.betas,
            weight_decay=optimizer.weight_decay, fused=self._device.type == "cuda",
        )  # fmt: skip
        if self._device.type == "cuda" and not optimizer.offload:
            # Allocate the moments now, so an engine that wakes later finds the remaining memory in large blocks.
            for weight in trained:
                self._optimizer.state[weight] = {name: self._empty_moment(weight, name) for name in _MOMENT_NAMES}
        self._updates = 0
        self._open = True
        self._call_lock = threading.Lock()
        self._writing: Future[None] = Future()
        self._writing.set_result(None)
        self._reference: dict[str, Tensor] = {}
        self._snapshot: dict[str, Tensor] = {}
        self._saved: dict[str, Tensor] = {}  # previous snapshot, whose memory the next one reuses
        self._batch: dict[_Key, TrainingSequence] = {}
        self._old_logprobs: dict[_Key, Tensor] = {}  # empty before the first update on the batch
        self._reference_logprobs: dict[_Key, Tensor] = {}
        if objective.kl:
            self._refresh_reference()

    def serve_calls(self) -> None:
        """Repeat rank 0's calls on this rank until rank 0 closes. Raises LearnerError if rank 0 fails or is lost."""
        with self._ranks.translate_errors():
            for name, arguments in iter(self._ranks.receive_call, None):
                with suppress(UpdateError):  # rank 0 raises and reports it, too
                    getattr(self, name)(*arguments)
            self._free()

    def compute_logprobs(self, sequences: Sequence[TrainingSequence], temperature: float | None = None) -> list[Tensor]:
        """Return the log-probabilities of each sequence's completion. temperature: the sampler's by default."""
        logprobs: list[Tensor] = self._call_on_all_ranks("_compute_logprobs", sequences, temperature)
        return logprobs

    def begin_batch(self, sequences: Sequence[TrainingSequence]) -> None:
        """Begin a batch: discard the previous one, and compute the reference's log-probabilities.

        The first update computes the old log-probabilities. For its own minibatch, they come from its forward pass.
        """
        keys = _list_keys(sequences)
        self._batch = dict(zip(keys, sequences, strict=True))
        self._old_logprobs, self._reference_logprobs = {}, {}
        if self._objective.kl:
            self._reference_logprobs = dict(
                zip(keys, self._call_on_all_ranks("_compute_reference_logprobs", sequences), strict=True)
            )

    def update(self, sequences: Sequence[TrainingSequence], *, max_tokens: int = 0) -> dict[str, float]:
        """Make one optimizer step on a minibatch, and return its metrics under TRL's names.

        max_tokens: maximum completion length, by which the aggregation "constant_length" divides

        If no token is in the loss, there is no step, and the metric `skipped` is 1. Raises UpdateError, before any
        weight changes, if the loss or the gradient is not finite.
        """
        if self._objective.aggregation == "constant_length" and max_tokens < 1:
            raise LearnerError(
                'objective.aggregation = "constant_length" divides by the maximum completion length, but max_tokens = '
                f"{max_tokens}: give max_tokens"
            )
        keys, needs_old = _list_keys(sequences), self._objective.old == "learner"
        if (needs_old or self._objective.kl) and not self._batch.keys() >= set(keys):
            raise LearnerError("a minibatch has completions that are not in the batch of begin_batch")
        is_first = needs_old and not self._old_logprobs
        # The first forward pass can compute the old log-probabilities, unless a mask of completions needs them earlier.
        own = set(keys) if is_first and not self._objective.mismatch_high else set()
        known = self._old_logprobs
        if is_first and (others := {key: each for key, each in self._batch.items() if key not in own}):
            known = dict(zip(others, self.compute_logprobs([*others.values()]), strict=True))
        old = [known[key] for key in keys] if needs_old and not own else None
        reference = [self._reference_logprobs[key] for key in keys] if self._objective.kl else None
        metrics: dict[str, float]
        metrics, logprobs = self._call_on_all_ranks("_update", sequences, old, reference, max_tokens)
        if not metrics["skipped"]:
            self._old_logprobs = known | (dict(zip(keys, logprobs, strict=True)) if own else {})
        return metrics

    def export_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, tensor) for samplers: Hub names, full tensors, LoRA merged, in `dtype`.

        Gathers one bucket of parameters at a time. Do not call `update` during the iteration. Tensors may share the
        learner's memory: copy them to keep them.
        """
        if self._device.type == "cuda":
            torch.cuda.empty_cache()  # a sampler may use the same GPU
        for names in bucket_parameter_names(self._causal, self._dtype, _BUCKET_BYTES):
            # Gather the whole bucket before the first yield: gathers between a sampler's collectives would deadlock.
            yield from self._call_on_all_ranks("_gather", names)

    def update_reference(self) -> None:
        """Copy the current weights to the reference of the KL penalty, as in DeepSeekMath's iterative GRPO.

        With objective.reference_mix = a, the reference becomes a * weights + (1 - a) * reference (TR-DPO,
        arXiv:2404.09656).
        """
        self._call_on_all_ranks("_refresh_reference")

    @property
    def all_ranks_alive(self) -> bool:
        """Return whether all ranks are available for calls and checkpoints."""
        return self._open or self.n_ranks == 1

    def snapshot(self) -> None:
        """Copy the current state to the CPU, for a later `save_state`, also after a failed update."""
        self._call_on_all_ranks("_copy_state")

    def save_state(self, folder: Path, *, from_snapshot: bool = False) -> Future[None]:
        """Begin to write the learner's state to a new folder, from which any number of ranks can resume.

        folder         new folder in an existing one that all ranks share
        from_snapshot  whether to write the copy of `snapshot` instead of the current state

        The call copies the state, so training may continue. The future completes when all ranks have written, and
        raises CheckpointError if a rank failed. The state omits random generators, since updates are deterministic.
        """
        self._call_on_all_ranks("_save_state", folder, from_snapshot)
        return self._writing

    def load_state(self, folder: Path) -> None:
        """Load a state that `save_state` wrote.

        Raises CheckpointError if it is damaged, and LearnerError if it belongs to another model.
        """
        stored = sharded_state.read_tensor_shapes(folder)
        shapes = {name: shape for name, shape in stored.items() if name.startswith(_WEIGHTS)}
        if shapes != {f"{_WEIGHTS}{name}": weight.shape for name, weight in self._trained.items()}:
            raise LearnerError(f"the checkpoint in {folder} is of another model than {self._model.path}")
        if self._objective.kl and not any(name.startswith(_REFERENCE) for name in stored):
            raise LearnerError(
                f"the checkpoint in {folder} has no reference for objective.kl = {self._objective.kl:g}, because its "
                "run had objective.kl = 0. Set objective.kl = 0"
            )
        self._call_on_all_ranks("_load_state", folder, sorted(stored))

    def save_pretrained(self, folder: Path) -> None:
        """Write the model and its tokenizer atomically, in `dtype`, for transformers and vLLM.

        Raises LearnerError if the folder cannot be written.
        """
        adapter = (lambda: self._call_on_all_ranks("_gather_adapter")) if self._model.lora_rank else None
        model_files.write_model(folder, self.export_weights(), adapter, self._causal, self._model)

    def close(self) -> None:
        """End the other ranks, and free the memory."""
        if self.rank == 0 and self._open:
            with defer_interrupts(), self._call_lock, self._ranks.translate_errors():
                self._open = False
                self._ranks.broadcast_call(None)
        elif self.rank == 0:
            self._ranks.announce_failure("see the message of rank 0")
        self._free()

    def _call_on_all_ranks(self, name: str, *arguments: Any) -> Any:
        # Interrupts are deferred, because a rank that aborts a call is lost. The lock serializes calls with those of
        # the thread that exports weights.
        with defer_interrupts(), self._call_lock:
            if not self.all_ranks_alive:
                raise LearnerError("the other ranks have ended or are lost; see the earlier messages")
            try:
                with self._ranks.translate_errors():
                    self._ranks.broadcast_call((name, arguments))
                    return getattr(self, name)(*arguments)
            except UpdateError:
                raise
            except BaseException:
                self._open = False  # the other ranks have failed, too, or block in a collective
                raise

    def _build_empty_model(self) -> Any:
        self._ranks.check_on_rank_zero(lambda: model_files.check_packing_support(self._model.path))
        causal = model_files.build_empty_model(self._model)
        settings = causal.config.get_text_config()
        heads = settings.num_attention_heads
        check_heads(heads, getattr(settings, "num_key_value_heads", heads), self._ranks.context)
        return causal

    def _free(self) -> None:
        with self._ranks.translate_errors():
            wait([self._writing])  # rank 0 raises a failure when it reads the future's result
        self._ranks.close()
        for name in _FREED:
            self.__dict__.pop(name, None)

    def _refresh_reference(self) -> None:
        mix, before = self._objective.reference_mix, self._reference
        self._reference = {
            name: torch.lerp(before[name], weight.detach(), mix) if before and mix < 1 else weight.detach().clone()
            for name, weight in self._trained.items()
        }

    @torch.no_grad()
    def _gather(self, names: list[str]) -> list[tuple[str, Tensor]]:
        self._ranks.use_device()  # rank 0 may be in the thread that exports weights
        return list(export_tensors(self._causal, self._dtype, names))

    def _collect_state(self) -> dict[str, Tensor]:
        """Return this rank's shards of the state, without a copy."""
        state = {_UPDATES: torch.tensor(self._updates)}
        for name, weight in self._trained.items():
            state[f"{_WEIGHTS}{name}"] = weight.detach()
            state |= {f"{_MOMENTS}{name}/{key}": value for key, value in self._optimizer.state.get(weight, {}).items()}
        return state | {f"{_REFERENCE}{name}": weight for name, weight in self._reference.items()}

    def _gather_adapter(self) -> dict[str, Tensor]:
        return model_files.gather_adapter_weights(self._causal)

    def _copy_state(self) -> None:
        copies = self._snapshot or (self._saved if self._writing.done() else {})
        self._snapshot = self._saved = {}
        # The reference needs no copy yet: `update_reference` replaces its tensors, and does not modify them.
        with self._ranks.use_copy_stream():
            self._snapshot = {
                name: value if name.startswith(_REFERENCE) else copy_to_host(value, copies.get(name))
                for name, value in self._collect_state().items()
            }

    def _save_state(self, folder: Path, from_snapshot: bool) -> None:
        wait([self._writing])
        if not self._ranks.is_true_on_all_ranks(folder.parent.is_dir()):
            raise LearnerError(f"{folder.parent} is missing on some ranks. Choose an --out that all machines share.")
        if not from_snapshot:
            self._copy_state()
        copied, self._snapshot = self._snapshot, {}
        self._ranks.wait_for_copies(on_host=True)
        for name in [name for name in copied if name.startswith(_REFERENCE)]:
            copied[name] = copy_to_device(copied[name], torch.device("cpu"))  # `_swap_reference` modifies it in place
        self._writing = sharded_state.write_in_background(
            copied, folder, self._ranks.background_group, begin=self._ranks.use_device
        )
        self._saved = {name: copy for name, copy in copied.items() if not name.startswith(_REFERENCE)}

    def _load_state(self, folder: Path, names: list[str]) -> None:
        self._optimizer.state.clear()
        self._reference = {}
        for name in names:
            if name.startswith(_MOMENTS):
                weight, _, moment = name.removeprefix(_MOMENTS).rpartition("/")
                self._optimizer.state[self._trained[weight]][moment] = self._empty_moment(self._trained[weight], moment)
            elif name.startswith(_REFERENCE):
                weight = name.removeprefix(_REFERENCE)
                self._reference[weight] = torch.zeros_like(self._trained[weight].detach())
        state = self._collect_state()
        sharded_state.read_shards(state, folder, self._ranks.background_group)
        self._updates = int(state[_UPDATES])

    def _empty_moment(self, weight: Tensor, name: str) -> Tensor:
        """Return a zero tensor for this entry of AdamW's state of a weight."""
        if name == "step":
            return torch.zeros((), device=self._device)
        moment = torch.zeros_like(weight.detach())
        return copy_to_device(moment, torch.device("cpu")) if self._settings.offload else moment

    def _pack_rows(self, sequences: Sequence[TrainingSequence]) -> Iterator[PackedRow]:
        context = self._ranks.context
        copy, part = divmod(self.rank, context)
        rows = pack_into_rows(
            sequences, row_tokens=self._settings.row_tokens, ranks=self.n_ranks // context, rank=copy,
            device=self._device,
        )  # fmt: skip
        return (shard_row(row, ranks=context, rank=part) for row in rows)

    @torch.no_grad()
    def _compute_logprobs(self, sequences: Sequence[TrainingSequence], temperature: float | None) -> list[Tensor]:
        logp_T = torch.zeros(sum(len(sequence.token_ids) for sequence in sequences), device=self._device)
        for row in self._pack_rows(sequences):
            logp_T[row.token_index_R], _ = self._policy(row, temperature=temperature)
        self._ranks.all_reduce_sum(logp_T)
        return _split_by_sequence(logp_T, sequences)

    def _compute_reference_logprobs(self, sequences: Sequence[TrainingSequence]) -> list[Tensor]:
        self._swap_reference()
        try:
            return self._compute_logprobs(sequences, None)
        finally:
            self._swap_reference()

    @torch.no_grad()
    def _swap_reference(self) -> None:
        for name, weight in self._trained.items():
            trained = weight.detach().clone()
            weight.copy_(self._reference[name])
            self._reference[name].copy_(trained)

    def _update(
        self, sequences: Sequence[TrainingSequence], old: Logprobs, reference: Logprobs, max_tokens: int
    ) -> tuple[dict[str, float], list[Tensor]]:
        """Make the optimizer step. Return its metrics, and each sequence's log-probabilities before it.

        old: None if the old log-probabilities come from the sampler or from this update's forward pass
        """
        computes_old_logprobs = old is None and self._objective.old == "learner"
        batch = build_minibatch(sequences, self._objective, old, reference, max_tokens=max_tokens, device=self._device)
        rate = compute_learning_rate(self._updates, self._settings, total_updates=self._total_updates)
        metrics = {
            "learning_rate": rate,
            "num_tokens": float(sum(len(sequence.prompt_ids) + len(sequence.token_ids) for sequence in sequences)),
            "counted_tokens": batch.n_tokens,
            "skipped": float(batch.n_tokens == 0),
        }
        self._updates += 1
        if batch.n_tokens == 0:
            return metrics, []
        logp_T, entropy_T = self._accumulate_gradient(sequences, batch, computes_old_logprobs=computes_old_logprobs)
        if computes_old_logprobs:
            batch = replace_old_logprobs(batch, logp_T, self._objective)
        metrics |= compute_minibatch_metrics(logp_T, entropy_T, batch, self._objective)
        parameters = [weight for weight in self._trained.values() if weight.grad is not None]
        norm = gather_full_tensor(torch.nn.utils.get_total_norm([weight.grad for weight in parameters]))
        metrics["grad_norm"] = norm.item()
        if not math.isfinite(metrics["loss"]) or not math.isfinite(metrics["grad_norm"]):
            self._optimizer.zero_grad()
            self._updates -= 1
            raise UpdateError(
                f"update {self._updates}: the loss is {metrics['loss']:.3g}, and the gradient norm is "
                f"{metrics['grad_norm']:.3g}. The weights were not changed. Lower optimizer.learning_rate, or set "
                'model.dtype = "float32".'
            )
        torch.nn.utils.clip_grads_with_norm_(parameters, self._settings.clip_norm, norm)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._ranks.wait_for_copies(on_host=False)
        if self._settings.offload:
            step_in_shards(self._optimizer, self._trained.values())
        else:
            self._optimizer.step()
        self._optimizer.zero_grad()
        return metrics, _split_by_sequence(logp_T, sequences)

    def _accumulate_gradient(
        self, sequences: Sequence[TrainingSequence], batch: Minibatch, *, computes_old_logprobs: bool
    ) -> tuple[Tensor, Tensor]:
        """Accumulate the gradient of the loss. Return the log-probability and the entropy of each token of the batch.

        computes_old_logprobs: whether this forward pass gives the old log-probabilities
        """
        logp_T, entropy_T = torch.zeros_like(batch.old_logp_T), torch.zeros_like(batch.old_logp_T)
        for row in self._pack_rows(sequences):
            logp_R, entropy_R = self._policy(row, entropy_gradient=self._objective.entropy != 0)
            selected = batch.select(row.token_index_R)
            if computes_old_logprobs:
                selected = replace_old_logprobs(selected, logp_R.detach(), self._objective)
            compute_loss(logp_R, entropy_R, selected, self._objective).backward()  # type: ignore[no-untyped-call]
            logp_T[row.token_index_R], entropy_T[row.token_index_R] = logp_R.detach(), entropy_R.detach()
        self._ranks.all_reduce_sum(logp_T)
        self._ranks.all_reduce_sum(entropy_T)
        return logp_T, entropy_T


def check_heads(query_heads: int, key_heads: int, ranks: int) -> None:
    """Raise LearnerError if the number of ranks that share a row does not fit the numbers of attention heads."""
    if query_heads % ranks or (key_heads % ranks and ranks % key_heads):
        raise LearnerError(
            f"ranks.context = {ranks} cannot divide the model's {query_heads} query heads and {key_heads} key heads. "
            "Choose a divisor of both, or a divisor of the query heads that is a multiple of the key heads"
        )


def _list_keys(sequences: Sequence[TrainingSequence]) -> list[_Key]:
    return [(sequence.prompt_ids, sequence.token_ids) for sequence in sequences]


def _split_by_sequence(values_T: Tensor, sequences: Sequence[TrainingSequence]) -> list[Tensor]:
    return list(torch.split(values_T.cpu(), [len(sequence.token_ids) for sequence in sequences]))


def compute_learning_rate(update: int, optimizer: config.OptimizerConfig, *, total_updates: int) -> float:
    """Return the learning rate of an update, numbered from 0.

    The rate rises linearly over `warmup_steps`. Then it is constant, or a half cosine that ends at 0 after the last
    update.
    """
    if update < optimizer.warmup_steps:
        return optimizer.learning_rate * (update + 1) / optimizer.warmup_steps
    if optimizer.schedule == "constant":
        return optimizer.learning_rate
    done = (update - optimizer.warmup_steps) / max(total_updates - optimizer.warmup_steps, 1)
    return optimizer.learning_rate * (1 + math.cos(math.pi * min(done, 1.0))) / 2
