"""A reward model: a classifier with one output, which scores completions or their steps in batches.

A sequence classifier scores whole completions. A token classifier scores steps, for process supervision: a step is a
nonblank line, and its score is the output at the line's last token. Only "\\n" ends a line, not the other line
separators of Unicode.

A score does not depend on the other completions of a batch, so a run repeats bit by bit. On a CPU, a batch is one row.
On a GPU, the shape of a batch depends only on the row length, rounded up.
"""

import io
import logging
import math
import queue
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rewards.reward import Completion, Reward, Task
from sandbox.closeable import Closeable
from train.errors import ConfigError, LearnerError, SamplerError
from train.learning.policy import check_complete, load_hf_config, translate_loading_errors

log = logging.getLogger(__name__)

MODEL_FAILED = "model_failed"
_SCORED = "scored"
_MAX_ROWS, _MAX_BATCH_TOKENS = 16, 4096  # bounds of a batch on a GPU; a longer row is a separate batch
_CLOSE_SECONDS = 60.0  # time limit of `close` for the pending batches
_LENGTH_STEP = 64  # batch lengths are multiples of this on a GPU; the padding is at most this or a quarter of the row
_ANSWER = "\ue000answer\ue000"  # placeholder for the completion in the rendered chat template


def check_reward_model(path: str, *, trainable: bool = False) -> None:
    """Raise ConfigError unless `path` is empty or has a classifier with one output and its own tokenizer.

    trainable: require a sequence classifier, since training compares scores of whole completions

    Does not read weights.
    """
    if path:
        _load_configuration(path, trainable=trainable)
        _ChatTokenizer(path)


def count_parameters(path: str) -> int:
    """Return the number of parameters of a reward model. Raises ConfigError as `check_reward_model` does."""
    settings = _load_configuration(path)
    with torch.device("meta"):
        return sum(weight.numel() for weight in _choose_classifier_class(settings).from_config(settings).parameters())


def _load_configuration(path: str, *, trainable: bool = False) -> Any:
    from train.sampling.model_check import check_model, check_tokenizer

    with _translate_loading_errors():
        check_model(path)
        check_tokenizer(path)
        settings = load_hf_config(path)
    _choose_classifier_class(settings)
    if settings.num_labels != 1:
        raise ConfigError(
            f"reward.model: {path} has {settings.num_labels} outputs, but a reward needs one. Use a classifier trained "
            "with num_labels = 1."
        )
    if trainable and _is_process_model(settings):
        raise ConfigError(
            f"reward.model_train_steps: {path} scores steps, but training compares scores of whole completions. Give a "
            "model for sequence classification, or remove model_train_steps."
        )
    return settings


@contextmanager
def _translate_loading_errors() -> Iterator[None]:
    try:
        yield
    except (LearnerError, SamplerError) as error:
        raise ConfigError(f"reward.model: {error}") from error


def _is_process_model(settings: Any) -> bool:
    return _get_architecture(settings).endswith("ForTokenClassification")


def _get_architecture(settings: Any) -> str:
    return str((settings.architectures or [""])[0])


def _choose_classifier_class(settings: Any) -> Any:
    import transformers

    if _is_process_model(settings):
        return transformers.AutoModelForTokenClassification
    if _get_architecture(settings).endswith("ForSequenceClassification"):
        return transformers.AutoModelForSequenceClassification
    raise ConfigError(
        f"reward.model: {settings.name_or_path} is a {_get_architecture(settings) or settings.model_type}, not a "
        "classifier. Give a model for sequence classification, or for token classification if it scores steps."
    )


class _ChatTokenizer:
    """The tokenizer of a reward model. Raises ConfigError if it does not fit the model."""

    def __init__(self, path: str) -> None:
        from transformers import AutoTokenizer

        with _translate_loading_errors(), translate_loading_errors(path):
            settings = load_hf_config(path)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(Path(path).expanduser()), trust_remote_code=False)
            chat = self._render("Question") if self._tokenizer.chat_template else ""
        largest = max(self._tokenizer.get_vocab().values(), default=0)
        if largest >= (n_embeddings := settings.get_text_config().vocab_size):
            raise ConfigError(
                f"reward.model: {path} has the tokenizer of another model: token {largest} has no embedding, since the "
                f"model has {n_embeddings}. Copy the model's own tokenizer files to this folder."
            )
        if not self._tokenizer.is_fast:
            raise ConfigError(
                f"reward.model: {path} has no tokenizer.json, which is needed to locate the ends of steps. Copy it "
                "from the base model."
            )
        if _ANSWER not in chat:
            raise ConfigError(
                f"reward.model: {path} has no chat template for a prompt and its completion. Copy chat_template.jinja "
                "from the base model."
            )
        tokens = settings.pad_token_id, self._tokenizer.pad_token_id, self._tokenizer.eos_token_id, 0
        self._lock = threading.Lock()
        self.pad_id: int = next(token for token in tokens if token is not None)

    def encode(self, prompt: str, completion: str) -> "Row":
        """Tokenize a prompt with its completion. Thread-safe.

        Tokenizes special tokens in the completion as plain text, so the completion cannot end its own turn.
        """
        before, _, after = self._render(prompt).rpartition(_ANSWER)
        with self._lock:  # calls with split_special_tokens change the tokenizer's state
            start: list[int] = self._tokenizer(before, add_special_tokens=False)["input_ids"]
            end: list[int] = self._tokenizer(after, add_special_tokens=False)["input_ids"]
            read = self._tokenizer(
                completion, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
            )
        first_chars = [first for first, _ in read["offset_mapping"]]
        steps, position = [], 0
        for line in io.StringIO(completion, newline="\n"):
            position += len(line)
            if line.strip():
                steps.append((position, len(start) + bisect_left(first_chars, position) - 1))
        return Row([*start, *read["input_ids"], *end], steps)

    def save_pretrained(self, folder: Path) -> None:
        self._tokenizer.save_pretrained(folder)

    def _render(self, prompt: str) -> str:
        chat = [{"role": "user", "content": prompt}, {"role": "assistant", "content": _ANSWER}]
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False)
        return text


@dataclass(frozen=True, slots=True)
class Row:
    """A tokenized prompt and completion.

    ids    token ids
    steps  for each step: offset of its end in the completion, in characters, and index of its last token
    """

    ids: list[int]
    steps: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    row: Row
    future: Future[Reward]
    start_time: float


class RewardModel(Closeable):
    """A reward model whose background thread scores waiting completions in batches.

    path       folder of a classifier, or its name on the Hub
    device     a device such as "cpu" or "cuda:7"; empty: the first GPU, or the CPU
    trainable  load weights for training: in float32 even on a GPU
    max_rows   maximum rows of a batch; None: 16 on a GPU and 1 on a CPU, where batches are no faster

    A token classifier scores a completion as its worst step, as in Math-Shepherd. The reward is unknown, never 0, if
    the completion exceeds the model's length or has no step to score, the model fails, or its output is not finite.

    Raises ConfigError if the model or device does not exist, or the model should be trainable but scores steps.
    """

    def __init__(self, path: str, device: str = "", *, trainable: bool = False, max_rows: int | None = None) -> None:
        settings = _load_configuration(path, trainable=trainable)
        self._device = _parse_device(device)
        self._tokenizer = _ChatTokenizer(path)
        self._scores_steps = _is_process_model(settings)
        self._max_length = getattr(settings.get_text_config(), "max_position_embeddings", 2**31)
        settings.pad_token_id = settings.get_text_config().pad_token_id = self._tokenizer.pad_id
        self._on_gpu = self._device.type == "cuda"
        self._max_rows = max_rows or (_MAX_ROWS if self._on_gpu else 1)
        dtype = torch.bfloat16 if self._on_gpu and not trainable else torch.float32
        self._model: Any = _load_weights(path, settings, dtype).to(self._device).eval()
        self._model.config.use_cache = False
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._failed = False
        self._thread = threading.Thread(target=self._score_requests, daemon=True, name="reward model")
        self._thread.start()

    def __call__(self, completion: Completion, task: Task) -> Reward:
        """Score a completion. Thread-safe; concurrent calls share batches."""
        start_time = time.perf_counter()
        try:
            row = self._tokenizer.encode(task.prompt, completion.text)
        except Exception as error:  # raised by a chat template
            return self._report_failure(error)
        if len(row.ids) > self._max_length:
            detail = f"{len(row.ids)} tokens exceed the reward model's maximum of {self._max_length}"
            return Reward(None, MODEL_FAILED, detail=detail)
        future: Future[Reward] = Future()
        self._requests.put(_Request(row, future, start_time))
        return future.result()

    def close(self) -> None:
        """Wait for pending requests, then stop the thread."""
        self._requests.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def make_batches(self, prompt: str, completions: Sequence[str]) -> list[tuple[list[int], list[Row]]]:
        """Divide a prompt's completions into batches, each a list of indices and their rows.

        Omits completions that exceed the model's length.
        """
        by_length: dict[int, list[tuple[int, Row]]] = {}
        for number, completion in enumerate(completions):
            row = self._tokenizer.encode(prompt, completion)
            if len(row.ids) <= self._max_length:
                by_length.setdefault(self._compute_batch_length(row), []).append((number, row))
        chunks = (
            rows[start : start + self._count_batch_rows(length)]
            for length, rows in by_length.items()
            for start in range(0, len(rows), self._count_batch_rows(length))
        )
        return [([number for number, _ in chunk], [row for _, row in chunk]) for chunk in chunks]

    def compute_outputs(self, rows: Sequence[Row]) -> Tensor:
        """Return the classifier's outputs for a batch, on the CPU: shape (B,), or (B, L) from a token classifier."""
        length = self._compute_batch_length(rows[0])
        ids_BL = torch.full((self._count_batch_rows(length), length), self._tokenizer.pad_id)
        mask_BL = torch.zeros_like(ids_BL)
        mask_BL[:, 0] = 1  # in padding rows, too: attention with no unmasked token gives nan
        for number, row in enumerate(rows):
            ids_BL[number, : len(row.ids)] = torch.tensor(row.ids)
            mask_BL[number, : len(row.ids)] = 1
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._on_gpu):
            output = self._model(input_ids=ids_BL.to(self._device), attention_mask=mask_BL.to(self._device))
        logits: Tensor = output.logits.float().cpu()
        return logits[: len(rows), ..., 0]

    def _compute_batch_length(self, row: Row) -> int:
        """Return the length to which a row is padded."""
        length = len(row.ids)
        if self._max_rows == 1:
            return length
        step = max(_LENGTH_STEP, 1 << max(length.bit_length() - 3, 0))
        return min(-(-length // step) * step, self._max_length)

    def _count_batch_rows(self, length: int) -> int:
        return max(1, min(self._max_rows, _MAX_BATCH_TOKENS // length))

    def parameters(self) -> list[torch.nn.Parameter]:
        """Return the weights for training. Do not score completions while they change."""
        return list(self._model.parameters())

    def save_pretrained(self, folder: Path) -> None:
        """Write the model and its tokenizer to a new folder."""
        self._model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    def load_weights(self, folder: Path) -> None:
        """Load weights that `save_pretrained` wrote. Raises ConfigError if they cannot be read."""
        model = _load_weights(str(folder), _load_configuration(str(folder)), torch.float32)
        self._model.load_state_dict(model.state_dict())

    def _score_requests(self) -> None:
        waiting: list[_Request] = []
        is_closing = False
        while waiting or not is_closing:
            try:
                request = self._requests.get(block=not waiting)
            except queue.Empty:
                length = self._compute_batch_length(waiting[0].row)
                same_length = [each for each in waiting if self._compute_batch_length(each.row) == length]
                batch = same_length[: self._count_batch_rows(length)]
                waiting = [each for each in waiting if each not in batch]
                self._score_batch(batch)
                continue
            if request is None:
                is_closing = True
            else:
                waiting.append(request)

    def _score_batch(self, batch: Sequence[_Request]) -> None:
        try:
            with torch.inference_mode():
                outputs = self.compute_outputs([request.row for request in batch])
        except Exception as error:  # out of memory, device faults, and others
            failure = self._report_failure(error)
            for request in batch:
                request.future.set_result(failure)
            return
        for request, output in zip(batch, outputs, strict=True):
            request.future.set_result(self._make_reward(request, output))

    def _make_reward(self, request: _Request, output: Tensor) -> Reward:
        seconds = time.perf_counter() - request.start_time
        steps: tuple[tuple[int, float], ...] = ()
        if self._scores_steps:
            steps = tuple((end, float(output[index])) for end, index in request.row.steps)
        values = [value for _, value in steps] if self._scores_steps else [float(output)]
        if not values or not all(map(math.isfinite, values)):
            return Reward(None, MODEL_FAILED, seconds, "not a finite number" if values else "no step")
        return Reward(min(values), _SCORED, seconds, steps=steps)

    def _report_failure(self, error: Exception) -> Reward:
        detail = f"{type(error).__name__}: {error}"[:500]
        if not self._failed:
            log.warning("reward.model failed: %s. The rewards of such completions are unknown.", detail)
        self._failed = True
        return Reward(None, MODEL_FAILED, detail=detail)


def _load_weights(path: str, settings: Any, dtype: torch.dtype) -> Any:
    with _translate_loading_errors():
        with translate_loading_errors(path):
            model, loading = _choose_classifier_class(settings).from_pretrained(
                str(Path(path).expanduser()), config=settings, dtype=dtype, output_loading_info=True,
                trust_remote_code=False,
            )  # fmt: skip
        check_complete(path, loading["missing_keys"])
    return model


def _parse_device(name: str) -> torch.device:
    """Return the device, by default the first GPU or the CPU. Raises ConfigError if it does not exist."""
    if not name:
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if name == "cpu" or name.removeprefix("cuda:") in map(str, range(torch.cuda.device_count())):
        return torch.device(name)
    raise ConfigError(
        f'reward.model_device = "{name}": torch finds {torch.cuda.device_count()} GPUs. Give "cpu", or "cuda:" and the '
        "index of a GPU."
    )
