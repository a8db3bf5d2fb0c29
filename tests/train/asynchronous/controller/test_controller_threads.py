"""The controller called by many threads at once: workers, scorers, a timer and the trainer."""

import random
import threading
import time

import fleet
from fleet import Worker, answer_to, publish
from journal_audit import audit_journal

from rewards.async_rewards import AsyncRewards
from rewards.reward import Reward
from train.asynchronous import journal
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.journal import RunJournal
from train.asynchronous.messages import LeaseRequest

SETTINGS = ControllerSettings(
    prompts_per_batch=4, completions_per_prompt=3, total_steps=25, max_tokens=8, max_staleness=2
)


def work(controller, name, n_wrong):
    """Work until the run is over; send some answers twice, and drop some leases."""
    worker, rng = Worker(controller, name, -1), random.Random(name)
    while not controller.request_leases(LeaseRequest(name, worker.loaded, 0)).run_ended:
        worker.load()
        worker.ask(slots=6)
        worker.beat()
        for lease in list(worker.leases):
            answers = [answer_to(lease, number) for number in range(len(lease.seeds))]
            n_wrong.append(worker.send(*answers[:1], *answers).count("broken"))
            worker.leases.remove(lease)
        time.sleep(rng.uniform(0, 0.002))


def score(answer, task):
    """Half of the answers are right; some take long."""
    chance = random.Random(answer.text).random()
    time.sleep(chance * 0.002)
    return Reward(float(chance < 0.5), "accepted")


def test_many_threads_work_on_one_run(tmp_path):
    n_wrong: list[int] = []
    with AsyncRewards(score, max_concurrent=4) as rewards:
        controller = fleet.controller(SETTINGS, RunJournal.open(tmp_path), submit=rewards.submit, now=time.monotonic)
        publish(controller, 0)
        threads = [threading.Thread(target=work, args=(controller, f"w{n}", n_wrong)) for n in range(4)]
        for thread in threads:
            thread.start()
        for version in range(SETTINGS.total_steps):
            groups = controller.wait_for_batch(version, seconds=60)
            assert len(groups) == SETTINGS.prompts_per_batch
            publish(controller, version + 1)
            controller.expire_leases()
            assert controller.collect_metrics()["groups/age_max"] <= SETTINGS.max_staleness
        controller.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert sum(n_wrong) == 0
    result = audit_journal(journal.read_events(tmp_path), staleness=SETTINGS.max_staleness)
    assert result.findings == []
    assert (result.n_batches, result.n_used) == (25, 100)
