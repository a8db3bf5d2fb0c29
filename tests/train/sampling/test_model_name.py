"""A model that does not exist is an error at once, in words."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from curate_command import curate

from train.errors import SamplerError
from train.sampling.model_check import check_model

ROOT = Path(__file__).parents[3]


@contextmanager
def hub(statuses):
    """Serve a Hub that answers the request for a model's config.json with these statuses and headers."""

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            status, code = statuses.get(self.path.split("/resolve/")[0].strip("/"), (404, "RepoNotFound"))
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", '"a"')
            self.send_header("Content-Length", "2")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    (tmp_path / "models" / "tiny" / "config.json").write_text("{}")
    return tmp_path


def said_of(models, endpoint, folder):
    """Return what is said of each model by a process that takes this address for the Hub's; None if it exists."""
    program = (
        "import sys\nfrom train.errors import SamplerError\nfrom train.sampling.model_check import check_model\n"
        "for model in sys.argv[1:]:\n    try:\n        check_model(model)\n        print()\n"
        "    except SamplerError as error:\n        print(error)\n"
    )
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *models],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    return dict(zip(models, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        pytest.param("./models/tinny", r"has no config.json\. Did you mean models/tiny\? Give such", id="a path"),
        pytest.param("models", "models is not the folder of a model", id="another folder"),
        pytest.param("a/b/c", "a/b/c is not the folder of a model", id="too deep for the Hub"),
        pytest.param("my models!", "neither a folder here nor the name of a model on the Hub", id="no name"),
    ],
)
def test_what_can_only_be_a_folder_is_not_looked_for_elsewhere(model, words, here):
    with pytest.raises(SamplerError, match=words):
        check_model(model)


def test_other_names_are_looked_up_on_the_hub(here):
    statuses = {"me/gated": (403, "GatedRepo"), "me/data": (404, "EntryNotFound"), "me/model": (200, "")}
    with hub(statuses) as endpoint:
        said = said_of(["models/tinny", "models/tiny", *statuses], endpoint, here)
    assert "nor a model on the Hub. Did you mean models/tiny?" in said["models/tinny"]
    assert "is gated: accept its conditions" in said["me/gated"]
    assert "the Hub has me/data, but it is not a model" in said["me/data"]
    assert said["me/model"] == said["models/tiny"] == ""
    said = said_of(["me/model"], "http://127.0.0.1:9", here)
    assert "is not a folder here, and the Hub cannot be reached" in said["me/model"]


@pytest.mark.parametrize("command", ["evaluate", "difficulty", "train"])
def test_commands_say_it_before_they_read_or_write_anything(command, here, six_problems):
    (here / "run.toml").write_text(
        f"[model]\npath = './models/tinny'\n[data]\ndataset = {json.dumps(str(six_problems))}\n"
    )
    arguments = {
        "evaluate": ["--model", "./models/tinny", "--data", "no/such/set", "--out", "result.json"],
        "difficulty": [str(six_problems), "--model", "./models/tinny"],
        "train": ["run.toml"],
    }
    before = sorted(here.rglob("*"))
    result = curate(command, *arguments[command])
    assert result.exit_code == 1
    assert "Did you mean models/tiny?" in result.stderr
    assert sorted(here.rglob("*")) == before
