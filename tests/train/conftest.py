import pytest
import small_runs
import tiny_world
from run_folder import make_once, run_folder

from sandbox import Sandbox


@pytest.fixture(scope="module")
def box():
    with Sandbox(workers=2) as box:
        yield box


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Give the test a folder of its own for what is kept from one evaluation to the next."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def six_problems():
    """Return the folder of a dataset with the problems of tests/tiny_world.py."""
    return make_once(run_folder() / "six", small_runs.dataset) / "out"


@pytest.fixture
def small(tmp_path, tiny_model, six_problems):
    """Return the configuration file of a small run."""
    return small_runs.written(tmp_path, tiny_model, six_problems)


@pytest.fixture(scope="session")
def whole(tiny_model, six_problems):
    """Return a function that returns the folder of an undisturbed small run with a pipeline, which tests share."""

    def run(way):
        def make(folder):
            small = small_runs.written(folder, tiny_model, six_problems)
            small_runs.trained(small, folder / "run", f"rollout.pipeline={way}")

        return make_once(run_folder() / f"whole-{way}", make) / "run"

    return run


@pytest.fixture(scope="module")
def environment():
    """Set the environment in which vLLM runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**tiny_world.ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}.items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="module", params=[pytest.param("vllm", marks=pytest.mark.thorough), "transformers"])
def engine(request, tiny_model, environment):
    """Return an engine of each kind, with the tiny model."""
    from train.sampling.open_engine import open_sampler
    from train.sampling.transformers import TransformersSampler

    opened = (TransformersSampler if request.param == "transformers" else open_sampler)(str(tiny_model))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def prompts(tokenizer):
    """Return the token ids of four prompts."""
    chats = [tiny_world.chat(tiny_world.statement(name)) for name in ("larger", "product", "sum", "difference")]
    return [tuple(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]) for chat in chats]


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a configuration file and returns its path."""

    def write(text):
        path = tmp_path / "run.toml"
        path.write_text(text)
        return path

    return write
