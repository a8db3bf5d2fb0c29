"""A controller under a clock of its own, with workers that draw made-up answers, and misbehave as told."""

import math
import random
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from rewards.reward import Completion as Scorable
from rewards.reward import Reward, Task
from train.asynchronous.controller import Controller
from train.asynchronous.dispatcher import ControllerSettings, PromptSource
from train.asynchronous.events import Event, SegmentStarted
from train.asynchronous.journal import NullJournal
from train.asynchronous.messages import (
    Heartbeat,
    Lease,
    LeaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
    VersionSpan,
    pack_logprobs,
    pack_tokens,
)
from train.rollouts.prompt_dataset import TrainingPrompt
from train.weights.manifest import WeightManifest

SETTINGS = ControllerSettings(
    prompts_per_batch=2, completions_per_prompt=3, total_steps=10, max_tokens=8, max_staleness=1, online_filter=False
)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class MemoryJournal(NullJournal):
    """A journal in memory, which outlives its controller. `archive` has the segments that were removed, too."""

    def __init__(self) -> None:
        self.archive: list[Event] = []
        self._segments: dict[int, list[Event]] = {}
        self._segment = 0

    def read_history(self) -> list[Event]:
        return [event for segment in sorted(self._segments) for event in self._segments[segment]]

    def append(self, event: Event) -> None:
        self.archive.append(event)
        self._segments.setdefault(self._segment, []).append(event)

    def rotate(self, header: SegmentStarted) -> None:
        self._segment = header.batches_taken
        self.append(header)

    def prune(self, segments_before: int) -> None:
        self._segments = {each: events for each, events in self._segments.items() if each >= segments_before}


class Endless:
    """An endless series of prompts, which are named after their positions."""

    def get_prompt(self, position: int) -> TrainingPrompt:
        return TrainingPrompt(f"q{position}", (position,), Task())


def text_of(tokens: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


def scored(value: float | None = 1.0) -> "Future[Reward]":
    future: Future[Reward] = Future()
    future.set_result(Reward(value, "accepted"))
    return future


def first_token_decides(answer: Scorable, task: Task) -> "Future[Reward]":
    """The reward is 1 if the first token is even."""
    return scored(float(int(answer.text.split()[0]) % 2 == 0))


def controller(
    settings: ControllerSettings,
    recorder: NullJournal | None = None,
    prompts: PromptSource | None = None,
    **changes: Any,
) -> Controller:
    given = {"submit": first_token_decides, "decode": text_of, "now": Clock(), **changes}
    return Controller(prompts or Endless(), settings, recorder or NullJournal(), **given)


def answer_to(
    lease: Lease, number: int, *, tokens: Sequence[int] = (), spans: Sequence[VersionSpan] = ()
) -> SampleResult:
    """Return the answer that a sound worker gives; its tokens depend on the seed, and every other one is right."""
    rng = random.Random(lease.seeds[number] + lease.attempt)  # an attempt has other weights than the one before it
    ids = tuple(tokens) or (number, *(rng.randrange(100) for _ in range(3)))
    return SampleResult(
        group=lease.group,
        number=number,
        attempt=lease.attempt,
        tokens=pack_tokens(ids),
        logprobs=pack_logprobs([-math.log(2 + token) for token in ids]) if lease.sampling_params.logprobs else b"",
        spans=tuple(spans) or ((lease.version, 0, len(ids)),),
        finish_reason="stop",
    )


class Worker:
    """A worker in one thread. `leases` are those that it has not answered; `loaded` is the version of its weights."""

    def __init__(self, controller: Controller, name: str = "w", loaded: int = 0) -> None:
        self.controller = controller
        self.name = name
        self.loaded = loaded
        self.leases: list[Lease] = []

    def ask(self, slots: int = 10**6) -> list[Lease]:
        leases = list(self.controller.request_leases(LeaseRequest(self.name, self.loaded, slots)).leases)
        self.leases += leases
        return leases

    def load(self) -> None:
        manifest = self.controller.wait_for_weights(self.loaded, 0)
        if manifest is not None:
            self.loaded = manifest.version

    def send(self, *answers: SampleResult) -> list[ResultStatus]:
        return self.controller.submit_results(SubmitRequest(self.name, answers))

    def finish(self, lease: Lease) -> list[ResultStatus]:
        self.leases.remove(lease)
        return self.send(*(answer_to(lease, number) for number in range(len(lease.seeds))))

    def beat(self, tokens_per_second: float = 1.0) -> None:
        running = tuple((lease.group, lease.attempt) for lease in self.leases)
        drop = set(
            self.controller.heartbeat(Heartbeat(self.name, self.loaded, running, tokens_per_second)).leases_to_drop
        )
        self.leases = [lease for lease in self.leases if (lease.group, lease.attempt) not in drop]


def publish(controller: Controller, version: int) -> None:
    controller.publish_weights(WeightManifest(version))
