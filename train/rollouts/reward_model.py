"""A reward model: a classifier that scores completions, or their steps, in batches on a device of its own.

The classifier has one output. A sequence classifier scores a whole completion. A token classifier scores its steps, for
process supervision: a step is a line that is not blank, and its value is the output at the last token of that line.

A score depends on the completion alone, not on what else is in its batch, so that a run can be repeated to the last
bit: each batch has a shape that follows from the length of its rows, which is rounded up.
"""

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

from rewards.reward import Completion, Reward, Task
from sandbox.closeable import Closeable
from train.errors import ConfigError, LearnerError, SamplerError
from train.learning.policy import check_complete, load_hf_config, translate_loading_errors

log = logging.getLogger(__name__)

MODEL_FAILED = "model_failed"
_SCORED = "scored"
_ROWS, _BATCH_TOKENS = 16, 4096  # upper bounds of a batch; a longer row is a batch of its own
_MIN_LENGTH = 64  # lengths are rounded up to a multiple of this, and longer ones by at most a quarter
_ANSWER = "\ue000answer\ue000"  # stands for the completion where the chat template is applied


def check_reward_model(path: str) -> None:
    """Raise ConfigError unless this is a classifier with one output and a tokenizer of its own; empty: none is wanted.

    Weights are not read.
    """
    if path:
        _configuration(path)
        _ChatTokenizer(path)


def model_parameters(path: str) -> int:
    """Return the number of parameters of a reward model. Raises ConfigError as `check_reward_model` does."""
    settings = _configuration(path)
    with torch.device("meta"):
        return sum(weight.numel() for weight in _classifier_class(settings).from_config(settings).parameters())


def _configuration(path: str) -> Any:
    from train.sampling.model_check import check_model, check_tokenizer

    with _explain_loading():
        check_model(path)
        check_tokenizer(path)
        settings = load_hf_config(path)
    _classifier_class(settings)
    if settings.num_labels != 1:
        raise ConfigError(
            f"reward.model: {path} has {settings.num_labels} outputs, and a reward is one. Give a classifier that was "
            "trained with num_labels = 1."
        )
    return settings


@contextmanager
def _explain_loading() -> Iterator[None]:
    """Raise ConfigError, which names the key, for a model that cannot be loaded."""
    try:
        yield
    except (LearnerError, SamplerError) as error:
        raise ConfigError(f"reward.model: {error}") from error


def _is_process_model(settings: Any) -> bool:
    return _architecture(settings).endswith("ForTokenClassification")


def _architecture(settings: Any) -> str:
    return str((settings.architectures or [""])[0])


def _classifier_class(settings: Any) -> Any:
    import transformers

    if _is_process_model(settings):
        return transformers.AutoModelForTokenClassification
    if _architecture(settings).endswith("ForSequenceClassification"):
        return transformers.AutoModelForSequenceClassification
    raise ConfigError(
        f"reward.model: {settings.name_or_path} is a {_architecture(settings) or settings.model_type}, which scores "
        "nothing. Give a model for sequence classification, or for token classification if it scores steps."
    )


class _ChatTokenizer:
    """Tokenizes a prompt and its completion as a chat. Raises ConfigError if the tokenizer is not that of the model."""

    def __init__(self, path: str) -> None:
        from transformers import AutoTokenizer

        with _explain_loading(), translate_loading_errors(path):
            settings = load_hf_config(path)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(Path(path).expanduser()), trust_remote_code=False)
            chat = self._render("Question") if self._tokenizer.chat_template else ""
        largest = max(self._tokenizer.get_vocab().values(), default=0)
        if largest >= (n_words := settings.get_text_config().vocab_size):
            raise ConfigError(
                f"reward.model: {path} has the tokenizer of another model: token {largest} has no embedding, of which "
                f"there are {n_words}. Copy the files of its own tokenizer there."
            )
        if not self._tokenizer.is_fast:
            raise ConfigError(f"reward.model: {path} has no tokenizer.json, which is needed to find the ends of steps.")
        if _ANSWER not in chat:
            raise ConfigError(
                f"reward.model: {path} has no chat template for a question and its answer. Copy chat_template.jinja "
                "from the model that it was trained from."
            )
        tokens = settings.pad_token_id, self._tokenizer.pad_token_id, self._tokenizer.eos_token_id, 0
        self.pad_id: int = next(token for token in tokens if token is not None)

    def encode(self, prompt: str, answer: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the tokens of the chat, and the end of each step: in characters of the answer, and as a token's index.

        What looks like a special token in the answer is text, so that no answer can end its own turn.
        """
        before, _, behind = self._render(prompt).rpartition(_ANSWER)
        start: list[int] = self._tokenizer(before, add_special_tokens=False)["input_ids"]
        end: list[int] = self._tokenizer(behind, add_special_tokens=False)["input_ids"]
        read = self._tokenizer(
            answer, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
        )  # fmt: skip
        first_chars = [first for first, _ in read["offset_mapping"]]
        steps, position = [], 0
        for line in answer.splitlines(keepends=True):
            position += len(line)
            if line.strip():
                steps.append((position, len(start) + bisect_left(first_chars, position) - 1))
        return [*start, *read["input_ids"], *end], steps

    def _render(self, prompt: str) -> str:
        chat = [{"role": "user", "content": prompt}, {"role": "assistant", "content": _ANSWER}]
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False)
        return text


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A chat to score. `length` is that of the batch, in tokens."""

    ids: list[int]
    steps: list[tuple[int, int]]
    length: int
    start_time: float
    future: Future[Reward]


class RewardModel(Closeable):
    """Scores completions; a thread of its own forms batches of those that wait.

    path    folder of a classifier, or its name on the Hub
    device  "cpu", "cuda:7"; empty: the first GPU, or the CPU

    The reward is unknown, never 0, for a completion longer than the model can read, if the model fails, or if it gives
    no finite number. A completion without any step is unknown to a token classifier, too. A completion of several steps
    is worth its worst one, as in Math-Shepherd.
    Raises ConfigError if there is no such model or device.
    """

    def __init__(self, path: str, device: str = "") -> None:
        settings = _configuration(path)
        self._device = _device(device)
        self._tokenizer = _ChatTokenizer(path)
        self._scores_steps = _is_process_model(settings)
        self._max_length = getattr(settings.get_text_config(), "max_position_embeddings", 2**31)
        settings.pad_token_id = settings.get_text_config().pad_token_id = self._tokenizer.pad_id
        dtype = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        with _explain_loading():
            with translate_loading_errors(path):
                model, loading = _classifier_class(settings).from_pretrained(
                    str(Path(path).expanduser()), config=settings, dtype=dtype, output_loading_info=True,
                    trust_remote_code=False,
                )  # fmt: skip
            check_complete(path, loading["missing_keys"])
        model.config.use_cache = False
        self._model = model.to(self._device).eval()
        self._requests: queue.SimpleQueue[tuple[Completion, Task, Future[Reward]] | None] = queue.SimpleQueue()
        self._failed = False
        threading.Thread(target=self._score_requests, daemon=True, name="reward model").start()

    def __call__(self, answer: Completion, task: Task) -> Reward:
        """Return the score of a completion. Many threads call this at once, and wait for the same batch."""
        future: Future[Reward] = Future()
        self._requests.put((answer, task, future))
        return future.result()

    def close(self) -> None:
        """End the thread once it has scored what was asked for before."""
        self._requests.put(None)

    def _score_requests(self) -> None:
        waiting: list[_Row] = []
        while True:
            try:
                request = self._requests.get(block=not waiting)
            except queue.Empty:
                batch = [row for row in waiting if row.length == waiting[0].length][: _n_rows(waiting[0].length)]
                waiting = [row for row in waiting if row not in batch]
                self._score_batch(batch)
                continue
            if request is None:
                return
            waiting += self._row(*request)

    def _row(self, answer: Completion, task: Task, future: Future[Reward]) -> list[_Row]:
        """Return the row of a request, in a list that is empty if the model cannot read it."""
        start_time = time.perf_counter()
        try:
            ids, steps = self._tokenizer.encode(task.prompt, answer.text)
        except Exception as error:  # of a chat template
            self._fail([future], f"{type(error).__name__}: {error}")
            return []
        if len(ids) > self._max_length:
            detail = f"{len(ids)} tokens, and the reward model reads {self._max_length}"
            future.set_result(Reward(None, MODEL_FAILED, detail=detail))
            return []
        return [_Row(ids, steps, min(_rounded(len(ids)), self._max_length), start_time, future)]

    def _score_batch(self, batch: Sequence[_Row]) -> None:
        try:
            outputs = self._outputs(batch)
        except Exception as error:  # many types of exceptions: no memory, a fault of the device
            self._fail([row.future for row in batch], f"{type(error).__name__}: {error}")
            return
        for row, values in zip(batch, outputs, strict=True):
            seconds = time.perf_counter() - row.start_time
            if not values or not all(map(math.isfinite, values)):
                detail = "not a finite number" if values else "no step"
                row.future.set_result(Reward(None, MODEL_FAILED, seconds, detail))
                continue
            ends = [end for end, _ in row.steps] if self._scores_steps else []
            steps = tuple(zip(ends, values, strict=True)) if ends else ()
            row.future.set_result(Reward(min(values), _SCORED, seconds, steps=steps))

    @torch.inference_mode()
    def _outputs(self, batch: Sequence[_Row]) -> list[list[float]]:
        """Return the values of the steps of each row, or the one of the whole."""
        length, n_rows = batch[0].length, _n_rows(batch[0].length)
        ids_BL = torch.full((n_rows, length), self._tokenizer.pad_id)
        mask_BL = torch.zeros((n_rows, length), dtype=torch.int64)
        mask_BL[:, 0] = 1  # also of rows that are not used, or their attention would be empty
        for number, row in enumerate(batch):
            ids_BL[number, : len(row.ids)] = torch.tensor(row.ids)
            mask_BL[number, : len(row.ids)] = 1
        outputs = self._model(input_ids=ids_BL.to(self._device), attention_mask=mask_BL.to(self._device))
        logits = outputs.logits.float().cpu()[..., 0]  # (B,) or (B, L)
        if not self._scores_steps:
            return [[value] for value in logits[: len(batch)].tolist()]
        return [logits[number, [index for _, index in row.steps]].tolist() for number, row in enumerate(batch)]

    def _fail(self, futures: Sequence[Future[Reward]], detail: str) -> None:
        if not self._failed:
            log.warning("reward.model failed, and such answers have no reward: %s", detail)
        self._failed = True
        for future in futures:
            future.set_result(Reward(None, MODEL_FAILED, detail=detail[:500]))


def _rounded(length: int) -> int:
    """Return the length of the batch that a row of this length belongs to."""
    step = max(_MIN_LENGTH, 1 << max(length.bit_length() - 3, 0))
    return -(-length // step) * step


def _n_rows(length: int) -> int:
    return max(1, min(_ROWS, _BATCH_TOKENS // length))


def _device(name: str) -> torch.device:
    """Return the device of this name. Raises ConfigError if it is not there."""
    if not name:
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if name == "cpu" or name.removeprefix("cuda:") in map(str, range(torch.cuda.device_count())):
        return torch.device(name)
    raise ConfigError(
        f'reward.model_device = "{name}": torch finds {torch.cuda.device_count()} GPUs. Give "cpu", or "cuda:" and the '
        "number of a GPU, counted from 0."
    )
