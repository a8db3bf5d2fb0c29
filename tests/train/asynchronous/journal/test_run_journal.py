"""What is cut is on disk first, to the last bit; a process that is killed leaves what the next one needs."""

import math
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import chaos
import fleet
import forked
import pytest
from fleet import Worker, answer_to, publish
from journal_audit import audit_journal
from msgspec.structs import replace as structs_replace

from train.asynchronous import journal
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.events import BatchTaken, GroupDispatched, ResultScored, SegmentStarted, WeightsPublished
from train.asynchronous.group_states import Groups
from train.asynchronous.journal import RunJournal
from train.asynchronous.messages import unpack_logprobs
from train.errors import CheckpointError, RolloutError

SETTINGS = ControllerSettings(
    prompts_per_batch=2, completions_per_prompt=2, total_steps=4, max_tokens=8, max_staleness=1, online_filter=False
)
PATHS = os.pathsep.join(sys.path)
WRITER = Path(__file__).parents[2] / "journal_writer.py"


OPENED: list[RunJournal] = []


@pytest.fixture(autouse=True)
def _journals_are_closed():
    """A controller that is killed leaves its journal open."""
    yield
    while OPENED:
        OPENED.pop().close()


def opened(folder):
    OPENED.append(RunJournal.open(folder))
    return OPENED[-1]


def begin(folder, *, step=0, submit=fleet.first_token_decides, settings=SETTINGS):
    controller = fleet.controller(settings, opened(folder), step=step, submit=submit)
    publish(controller, step)
    return controller


def make_steps(controller, steps):
    worker, cuts = Worker(controller), {}
    for step in steps:
        worker.load()
        for lease in worker.ask():
            worker.finish(lease)
        cuts[step] = controller.try_take_batch(step)
        publish(controller, step + 1)
    return cuts


def segments(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def finished(tmp_path):
    """Return the folder of a run's journal, and what was trained on."""
    controller = begin(tmp_path / "journal")
    cuts = make_steps(controller, range(4))
    controller.close()
    return tmp_path / "journal", cuts


def test_cuts_are_read_as_they_were_trained_on(finished):
    folder, trained = finished
    assert dict(journal.read_batches(folder)) == trained
    assert dict(journal.read_batches(folder, after_step=2)) == {2: trained[2], 3: trained[3]}
    assert audit_journal(journal.read_events(folder), staleness=1).findings == []


def test_rewards_and_logprobs_are_recorded_to_the_last_bit(tmp_path):
    rewards = [0.1, 1 / 3, 5e-324, None]
    controller = begin(
        tmp_path,
        submit=lambda answer, task: fleet.scored(rewards[int(answer.text.split()[0])]),
        settings=ControllerSettings(
            prompts_per_batch=1, completions_per_prompt=4, total_steps=1, max_tokens=8, online_filter=False
        ),
    )
    worker = Worker(controller)
    (lease,) = worker.ask()
    worker.finish(lease)
    (trained,) = controller.try_take_batch(0)
    ((_, (recorded,)),) = journal.read_batches(tmp_path)
    assert [rollout.reward for rollout in recorded][:3] == rewards[:3]
    assert math.isnan(recorded[3].reward)
    assert recorded == trained
    sent = [tuple(unpack_logprobs(answer_to(lease, number).logprobs)) for number in range(4)]
    assert [rollout.logprobs for rollout in recorded] == sent


def test_a_run_that_is_resumed_trains_on_the_recorded_cuts_again_and_then_goes_on(finished):
    folder, trained = finished
    controller = begin(folder, step=2)
    assert controller.batches_taken == 4
    assert [controller.try_take_batch(version) for version in (2, 3)] == [trained[2], trained[3]]
    with pytest.raises(ValueError, match="the next batch is that of version 4"):
        controller.try_take_batch(5)
    with pytest.raises(ValueError, match="already replayed"):
        controller.try_take_batch(3)


def test_ready_groups_come_back_missing_scores_are_computed_again_and_running_groups_are_asked_again(tmp_path):
    asked = []

    def never(answer, task):
        asked.append(answer.text)
        return fleet.Future() if len(asked) > 2 else fleet.first_token_decides(answer, task)

    worker = Worker(begin(tmp_path, submit=never))
    ready, unscored, running, _ = worker.ask()
    worker.finish(ready)
    worker.finish(unscored)
    worker.send(answer_to(running, 0))
    unscored_texts = asked[2:4]

    asked_again = []

    def scored(answer, task):
        asked_again.append(answer.text)
        return fleet.first_token_decides(answer, task)

    controller = begin(tmp_path, submit=scored)
    assert asked_again == unscored_texts
    assert controller.collect_metrics()["groups/ready"] == 2
    other = Worker(controller)
    leases = other.ask()
    assert [(lease.group, lease.attempt) for lease in leases] == [(running.group, 1), (running.group + 1, 1)]
    assert [lease.seeds for lease in leases][0] == running.seeds
    assert Worker(controller).send(answer_to(running, 1)) == ["stale"]
    assert len(controller.try_take_batch(0)) == 2


def test_training_goes_on_if_the_journal_is_gone(tmp_path):
    controller = begin(tmp_path / "first")
    make_steps(controller, range(2))
    position = controller.position
    again = fleet.controller(SETTINGS, opened(tmp_path / "second"), step=2, position=position)
    publish(again, 2)
    assert make_steps(again, [2])[2][0][0].problem_id == f"q{position}"
    assert audit_journal(journal.read_events(tmp_path / "second"), staleness=1).findings == []


def test_training_goes_on_if_steps_were_made_without_the_journal(finished):
    folder, _ = finished
    controller = fleet.controller(
        ControllerSettings(prompts_per_batch=2, completions_per_prompt=2, total_steps=9, max_tokens=8,
        online_filter=False), opened(folder), step=7, position=20,
    )  # fmt: skip
    publish(controller, 7)
    assert make_steps(controller, [7])[7][0][0].problem_id == "q20"
    result = audit_journal(journal.read_events(folder), staleness=1)
    assert result.findings == []
    assert result.n_batches == 5


def test_a_torn_frame_is_cut_off_wherever_it_is_torn(finished):
    folder, _ = finished
    last = folder / segments(folder)[-2]  # the last one is empty but for its header
    (folder / segments(folder)[-1]).unlink()
    whole = last.read_bytes()
    recorded = list(journal.read_events(folder))
    for size in random.Random(0).sample(range(len(whole)), 60):
        last.write_bytes(whole[:size])
        journal.repair(folder)
        found = list(journal.read_events(folder))
        assert found == recorded[: len(found)]
        assert last.stat().st_size <= size
        RunJournal.open(folder).close()
        assert list(journal.read_events(folder)) == found


def test_a_run_goes_on_wherever_its_journal_ends(tmp_path):
    """Also where a process was killed after a cut and before the next segment, or before that had its first event."""
    settings = replace(SETTINGS, total_steps=8)
    make_steps(begin(tmp_path / "whole", settings=settings), range(3))
    written = {path.name: path.read_bytes() for path in sorted((tmp_path / "whole").iterdir())}
    ends = sorted({*frame_ends(written), *((name, 0) for name in written)})
    ends = [
        (name, end + number % 3 * 7) for number, (name, end) in enumerate(ends[::2])
    ]  # some in the midst of a frame
    for number, (last, size) in enumerate(ends):
        folder = tmp_path / f"from-{number}"
        folder.mkdir()
        for name, data in written.items():
            if name <= last:
                (folder / name).write_bytes(data[:size] if name == last else data)
        for _ in range(3):
            step = groups_of(folder).batches_taken
            controller = begin(folder, step=step, settings=settings)
            trained = make_steps(controller, [step, step + 1])
            controller.prune_journal(step + 1)
            again = begin(folder, step=step + 1, settings=settings)
            assert again.try_take_batch(step + 1) == trained[step + 1]
            if step + 4 > settings.total_steps:
                break
        assert audit_journal(journal.read_events(folder), staleness=1).findings == []


def frame_ends(written):
    for name, data in written.items():
        end = 0
        while end < len(data):
            end += 12 + int.from_bytes(data[end : end + 4], "little")
            yield name, end


def groups_of(folder):
    groups = Groups()
    for event in journal.read_events(folder):
        groups.apply(event)
    return groups


def test_a_bit_that_is_wrong_in_the_last_frame_cuts_it_off(finished):
    folder, _ = finished
    (folder / segments(folder)[-1]).unlink()
    last = folder / segments(folder)[-1]
    recorded = list(journal.read_events(folder))
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    journal.repair(folder)
    assert list(journal.read_events(folder)) == recorded[:-1]


def test_what_follows_a_torn_frame_is_cut_off_if_nothing_was_trained_on_since(finished):
    """So it is if the power fails: the end of one segment may be lost although the next has begun."""
    folder, trained = finished
    last, begun = (folder / name for name in segments(folder)[-2:])
    last.write_bytes(last.read_bytes()[:-1])
    assert begun.exists()
    controller = begin(folder, step=3)
    assert controller.batches_taken == 3  # the last cut was not on disk, so it was not trained on
    assert controller.try_take_batch(3) == trained[3]  # its groups are ready again
    assert audit_journal(journal.read_events(folder), staleness=1).findings == []


def test_a_journal_that_is_damaged_before_later_batches_is_refused_with_words(finished):
    folder, _ = finished
    path = folder / segments(folder)[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="Restore the file from a copy, or delete the folder"):
        RunJournal.open(folder)
    with pytest.raises(CheckpointError, match="damaged at byte"):
        list(journal.read_events(folder))
    assert path.read_bytes() == data


def test_segments_that_no_checkpoint_needs_are_removed_and_the_others_suffice(finished, tmp_path):
    folder, trained = finished
    controller = begin(folder, step=3)
    controller.prune_journal(3)
    assert segments(folder) == ["000002.frames", "000003.frames", "000004.frames"]
    assert controller.try_take_batch(3) == trained[3]
    assert dict(journal.read_batches(folder, after_step=3)) == {3: trained[3]}
    with pytest.raises(CheckpointError, match="the groups of step 3 are no longer in the journal"):
        list(journal.read_batches(folder, after_step=2))
    assert audit_journal(journal.read_events(folder), staleness=1).findings == []
    assert begin(folder, step=3).try_take_batch(3) == trained[3]


def test_a_disk_that_is_full_ends_the_run_with_words(tmp_path):
    class Full(RunJournal):
        def append(self, event):
            if isinstance(event, GroupDispatched) and event.group == 2:
                raise OSError(28, "No space left on device")
            super().append(event)

    RunJournal.open(tmp_path).close()
    OPENED.append(Full(tmp_path, 0))
    controller = fleet.controller(SETTINGS, OPENED[-1])
    publish(controller, 0)
    with pytest.raises(Exception, match="No space left"):
        Worker(controller).ask()
    with pytest.raises(RolloutError, match="cannot be written: .*No space left.* Make room"):
        controller.wait_for_batch(0, 10)


AUDITED = {
    "a group in two cuts": (lambda e: [*e, BatchTaken(4, cut_of(e).groups)], "was used at version 4 after it was used"),
    "a group that is too old": (
        lambda e: [with_version(event, 9) if isinstance(event, BatchTaken) and event.version == 3 else event for event
        in e], "was sampled at version 2 and used at version 9",
    ),
    "a group that nobody asked": (
        lambda e: [*e, BatchTaken(4, ((99, 0, 4),))],
        "group 99 was used, but never dispatched",
    ),
    "a group that is missing": (
        lambda e: [event for event in e if not (isinstance(event, GroupDispatched) and event.group == 1)],
        "group 1 was used, but never dispatched",
    ),
    "a missing score": (
        lambda e: [event for event in e if not (isinstance(event, ResultScored) and event.group == 1 and event.number ==
        0)], "group 1 was used before all its completions were scored",
    ),
    "a prompt for two groups": (
        lambda e: [structs_replace(x, position=0) if isinstance(x, GroupDispatched) and x.group == 1 else x for x in e],
        "position 0 was dispatched as group 0 and as group 1",
    ),
    "an attempt that was asked twice": (
        lambda e: [y for x in e for y in ([x, x] if isinstance(x, GroupDispatched) and x.group == 1 else [x])],
        "group 1 was dispatched as attempt 0 after attempt 0",
    ),
    "a group with another prompt": (
        lambda e: [y for x in e for y in (
            [x, structs_replace(x, attempt=1, position=77)] if isinstance(x, GroupDispatched) and x.group == 1 else [x]
        )], "group 1 was dispatched with position 1, then with 77",
    ),
    "a missing batch": (
        lambda e: [x for x in e if not (isinstance(x, BatchTaken) and x.version == 1) and x != SegmentStarted(2, 6, 6)],
        "after 1 batches, one of version 2 was taken",
    ),
}  # fmt: skip


def cut_of(recorded):
    return next(event for event in recorded if isinstance(event, BatchTaken))


def with_version(cut, version):
    return BatchTaken(version, cut.groups)


@pytest.mark.parametrize(("change", "finding"), AUDITED.values(), ids=AUDITED.keys())
def test_the_auditor_finds(finished, change, finding):
    folder, _ = finished
    for audit in (audit_journal, journal.audit_journal):
        assert any(finding in each for each in audit(change(list(journal.read_events(folder))), staleness=1).findings)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_writer_that_is_killed_again_and_again_ends_with_what_one_that_lives_would_have(tmp_path, seed):
    rng, told, printed = random.Random(seed), {}, tmp_path / "printed"
    for kill in range(40):
        with printed.open("w") as output:
            writer = forked.Popen(
                [sys.executable, WRITER, tmp_path, str(seed)], stdout=output, env=os.environ | {"PYTHONPATH": PATHS}
            )
        if kill < 6:
            while not printed.read_text() and writer.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.25))
            writer.send_signal(signal.SIGKILL)
        writer.wait(120)
        for line in printed.read_text().splitlines(keepends=True):
            if line.startswith("cut ") and line.endswith("\n"):
                _, version, digest = line.split()
                assert told.setdefault(int(version), digest) == digest, "a batch was trained on that is another one now"
        result = audit_journal(journal.read_events(tmp_path / "journal"), staleness=2)
        assert result.findings == []
        if writer.returncode == 0:
            break
    assert sorted(told) == list(range(30))
    assert dict(journal.read_batches(tmp_path / "journal", after_step=30)) == {}


def test_events_are_read_as_they_were_written(tmp_path):
    written = [SegmentStarted(0, 0, 0), WeightsPublished(0, "abc"), ResultScored(1, 2, 3, 0.1, "accepted", 1.5)]
    made = opened(tmp_path)
    for event in written:
        made.append(event)
    assert list(made.read_history()) == written
    groups = Groups()
    for event in made.read_history():
        groups.apply(event)


def test_chaos_on_a_real_journal_resumes_to_the_same_batches(tmp_path):
    for seed in range(12):
        made = opened(tmp_path / str(seed))
        run = chaos.Run(seed, steps=5, journal=made)
        run.run()
        recorded = dict(journal.read_batches(tmp_path / str(seed), after_step=run.checkpoint))
        assert recorded == {version: run.trained[version] for version in recorded}
        assert (
            audit_journal(journal.read_events(tmp_path / str(seed)), staleness=run.settings.max_staleness).findings
            == []
        )
