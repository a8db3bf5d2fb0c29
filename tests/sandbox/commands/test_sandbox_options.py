"""Every command that runs programs says in the same words where they run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from curate_command import curate
from serving import Service, serving

from curate.commands.main import load_command
from sandbox import Program, SandboxOptions, backends
from sandbox.commands.options import BACKENDS

RUN_PROGRAMS = ("build-dataset", "difficulty", "doctor", "evaluate", "judge", "serve", "train")
SUBMISSION = (
    '{"id": 1, "code": "print(input())", "kind": "stdin", "tests": [{"input": "7", "output": "7"}], '
    '"time_limit_s": 9, "memory_limit_mb": 256}\n'
)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving("--workers", "1") as service:
        yield service


@pytest.mark.parametrize("command", RUN_PROGRAMS)
def test_a_command_that_runs_programs_has_all_options_of_the_sandbox(command: str) -> None:
    options = {option for parameter in load_command(command).params for option in parameter.opts}
    assert {"--backend", "--address", "--image", "--workers", "--isolation"} <= options


def test_every_backend_can_be_chosen() -> None:
    assert set(BACKENDS) == set(backends.list_names())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["--address", "head:6379"], "is for the backends ray and http, not for local", id="here"),
        pytest.param(["--backend", "docker", "--address", "x"], "not for docker", id="docker"),
        pytest.param(["--backend", "http"], "needs an address: the URL that `curate serve` prints", id="http"),
        pytest.param(["--backend", "ray", "--image", "mine"], "is for the backend docker, not for ray", id="ray"),
        pytest.param(["--backend", "podman"], "'podman' is not one of 'local', 'docker', 'ray', 'http'", id="unknown"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_any_work(
    options: list[str], words: str, tmp_path: Path
) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text(SUBMISSION)
    result = curate("judge", records, "--out", tmp_path / "out.jsonl", *options)
    assert result.exit_code == 2
    assert words in result.output
    assert list(tmp_path.iterdir()) == [records]


def test_a_file_is_judged_by_a_service(service: Service, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text(SUBMISSION)
    curate("judge", records, "--out", tmp_path / "out.jsonl", "--backend", "http", "--address", service.url, check=True)
    assert service.metric("curate_verdicts_total", verdict="accepted") == 1
    assert '"accepted"' in (tmp_path / "out.jsonl").read_text()


def test_a_build_refuses_a_service_since_it_seeds_its_programs(service: Service, tmp_path: Path) -> None:
    where = ["--backend", "http", "--address", service.url]
    result = curate("build-dataset", "--source", "taco=examples/raw/taco", "--out", tmp_path / "out", *where)
    assert result.exit_code == 1
    assert "choose the backend local, docker or ray" in result.output
    assert not (tmp_path / "out").exists()


def test_options_open_a_sandbox(service: Service) -> None:
    with SandboxOptions(backend="http", address=service.url, workers=1).open() as box:
        assert box.run(Program("print(7)")).stdout == b"7\n"
