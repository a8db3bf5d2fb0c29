"""`curate rollout` starts workers on a Ray cluster."""

import pytest
from test_rollout_command import SECONDS, run_of

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore"),  # of torch and transformers about each other
]


def test_workers_on_a_ray_cluster(tiny_model, cluster):
    with run_of(tiny_model) as run:
        driver = run.start("--ray", cluster.address, "--workers", "2", "--gpus-per-worker", "0", name="actor")
        run.train_until(lambda: run.holds("actor-0") and run.holds("actor-1"))
        run.controller.close()
        run.server.close()
        assert driver.wait(SECONDS) == 0
        assert "2 workers on the Ray cluster" in driver.stdout.read()
