"""The cost of transferring new weights to an engine and of verifying them:  python -m benchmarks.weights

Two float32 models with random weights, of the size of `make learn`'s and about eighty times as large, and one vLLM
engine on CPUs. The learner publishes to shared memory; the engine reads from there, or fetches over loopback HTTP. Then
the same in the middle of completions. All times are CPU times, so that other load hardly changes them.
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.record import describe_machine, save_results
from benchmarks.tiny_training import VLLM_ON_CPU

_VOCABULARY, _PROMPT_TOKENS, _COMPLETIONS, _TIMES = 490, 60, 16, 7
_MODELS = {
    "of make learn": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4},
    "larger": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 8, "num_attention_heads": 12},
}


def save_model(folder: Path, sizes: dict[str, int]) -> Any:
    """Write a random model and a tokenizer to the folder, and return the model."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    common = {"vocab_size": _VOCABULARY, "num_key_value_heads": 2, "max_position_embeddings": 512}
    model: Any = Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **common, **sizes))  # type: ignore
    model.save_pretrained(folder)
    ids = {f"t{number}": number for number in range(_VOCABULARY)}
    words = Tokenizer(models.WordLevel(ids, unk_token="t0"))
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="t1", chat_template="{{ messages }}")
    tokenizer.save_pretrained(folder)
    return model


def make_prompts() -> list[tuple[int, ...]]:
    return [tuple((7 * n + 13 * index) % _VOCABULARY for index in range(_PROMPT_TOKENS)) for n in range(_COMPLETIONS)]


def measure_transfers(model: Any, engine: Any, probe: Any) -> dict[str, float]:
    """Return the median seconds of publishing, loading and proving through shared memory, with an idle engine."""
    from train.sampling.proof import prove
    from train.weights.source import SharedMemoryTransport

    found: dict[str, list[float]] = {"publish": [], "load": [], "prove": []}
    with closing(SharedMemoryTransport()) as transport:
        for version in range(_TIMES):
            began = time.process_time()
            manifest = transport.publish(model.named_parameters(), version, probe, 1.01)
            published = time.process_time()
            engine.load(transport.fetch(manifest), version)
            loaded = time.process_time()
            prove(engine, manifest)
            found["publish"].append(published - began)
            found["load"].append(loaded - published)
            found["prove"].append(time.process_time() - loaded)
    return {name: statistics.median(seconds[1:]) for name, seconds in found.items()}


def measure_fetch(model: Any, folder: Path) -> float:
    """Return the seconds of fetching all files over loopback HTTP."""
    from train.weights.http_source import HttpSource
    from train.weights.source import write_files

    versions = folder / "served" / "weights"
    (versions / "0").mkdir(parents=True)

    def write(number: int, content: bytes) -> str:
        (versions / "0" / str(number)).write_bytes(content)
        return str(number)

    manifest = write_files(model.named_parameters(), write)
    with serve_folder(folder / "served") as url, closing(HttpSource(url, {}, folder / "fetched")) as source:
        began = time.process_time()
        source.fetch(manifest)
        return time.process_time() - began


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def measure_interruption(model: Any, engine: Any, probe: Any) -> dict[str, float]:
    """Return the median seconds of the pause of sampling, and from the manifest to the first token of new weights.

    Another thread publishes and fetches while the engine samples; only loading and proving pause it.
    """
    from train.sampling.proof import prove
    from train.sampling.protocol import SamplingParams
    from train.weights.source import SharedMemoryTransport

    sampling = SamplingParams(1.0, 1.0, 400, logprobs=True)
    found: dict[str, list[float]] = {"pause": [], "first_token": []}
    with closing(SharedMemoryTransport()) as transport:
        for version in range(100, 100 + _TIMES):
            for number, ids in enumerate(make_prompts()):
                engine.add(f"{version}-{number}", ids, number, sampling)
            for _ in range(10):
                engine.step()
            fetched: list[Any] = []

            def publish(number: int = version, into: list[Any] = fetched) -> None:
                manifest = transport.publish(model.named_parameters(), number, probe, 1.01)
                published = time.thread_time()
                weights = transport.fetch(manifest)
                into.append((manifest, weights, time.thread_time() - published))

            publisher = threading.Thread(target=publish)
            publisher.start()
            while not fetched:
                engine.step()
            manifest, weights, fetching = fetched[0]
            began = time.thread_time()
            engine.load(weights, version)
            prove(engine, manifest)
            resumed = time.thread_time()
            engine.step()
            found["first_token"].append(fetching + time.thread_time() - began)
            found["pause"].append(resumed - began)
            publisher.join()
            engine.abort([f"{version}-{number}" for number in range(_COMPLETIONS)])
    return {name: statistics.median(seconds[1:]) for name, seconds in found.items()}


def measure(sizes: dict[str, int]) -> dict[str, Any]:
    import torch

    from train.sampling.vllm import VllmSampler
    from train.weights.manifest import Probe

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_model(folder / "model", sizes)
        tokens = tuple(make_prompts()[:4])
        with torch.no_grad():
            tables = [model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1) for ids in tokens]
        logprobs = [
            tuple(table.gather(1, torch.tensor(ids)[1:, None])[:, 0].tolist())
            for table, ids in zip(tables, tokens, strict=True)
        ]
        probe = Probe(tokens, tuple(logprobs))
        n_bytes = sum(parameter.nbytes for parameter in model.parameters())
        with closing(VllmSampler(str(folder / "model"), max_model_len=512)) as engine:
            return {
                "bytes": n_bytes,
                "seconds": measure_transfers(model, engine, probe) | {"fetch_http": measure_fetch(model, folder)},
                "while_sampling_seconds": measure_interruption(model, engine, probe),
            }


def main() -> None:
    os.environ.update(VLLM_ON_CPU | {"OMP_NUM_THREADS": "1"})
    models = {name: measure(sizes) for name, sizes in _MODELS.items()}
    save_results("weights", {"machine": describe_machine(), "completions": _COMPLETIONS, "models": models})


if __name__ == "__main__":
    main()
