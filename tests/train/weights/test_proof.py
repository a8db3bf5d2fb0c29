"""Weights that do not arrive as they were sent are noticed at the hand-over in which that happens: real engines."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from msgspec.structs import replace  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from train.errors import ParityError, SamplerError  # noqa: E402
from train.sampling.proof import load_and_prove, prove  # noqa: E402
from train.weights.checksums import DIFFERENT_COPIES, combine_checksums, compute_checksum, to_hex  # noqa: E402  # noqa: E402
from train.weights.manifest import Probe  # noqa: E402
from train.weights.source import InProcessTransport, SharedMemoryTransport  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

MAX_ERROR = 1.001
LAYER = "model.layers.1."


@pytest.fixture(scope="module")
def versions(tiny_model):
    """Return two versions of the model, the second of which is one small update further."""
    torch.manual_seed(0)
    models = [AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32) for _ in range(2)]
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter += 1e-3 * torch.randn_like(parameter)
    return models


def tensors(model):
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


def probe(model, prompts):
    with torch.no_grad():
        logps = [model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1) for ids in prompts]
    return Probe(
        tuple(prompts),
        tuple(
            tuple(logp_TV.gather(1, torch.tensor(ids)[1:, None])[:, 0].tolist())
            for ids, logp_TV in zip(prompts, logps, strict=True)
        ),
    )


class Faulty:
    """An engine in whose loading something goes wrong."""

    def __init__(self, engine, fault, old):
        self._engine, self._fault, self._old = engine, fault, old

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def load(self, weights, version):
        self._fault(self._engine, dict(weights), self._old, version)


def without(name):
    return lambda engine, new, old, version: engine.load([pair for pair in new.items() if pair[0] != name], version)


def half_of(name):
    def load(engine, new, old, version):
        half = len(new[name]) // 2
        engine.load((new | {name: torch.cat([new[name][:half], old[name][half:]])}).items(), version)

    return load


def exchanged(one, other):
    return lambda engine, new, old, version: engine.load((new | {one: new[other], other: new[one]}).items(), version)


def off_by_a_hundredth(name):
    return lambda engine, new, old, version: engine.load((new | {name: new[name] + 1e-2}).items(), version)


FAULTS = [
    pytest.param(without(LAYER + "self_attn.k_proj.weight"), "k_proj", id="a tensor is dropped"),
    pytest.param(without("model.norm.weight"), r"\(model.norm.weight\)", id="a whole layer is dropped"),
    pytest.param(half_of(LAYER + "mlp.up_proj.weight"), r"1 of .*up_proj", id="half of the rows are old"),
    pytest.param(
        exchanged(LAYER + "mlp.up_proj.weight", LAYER + "mlp.gate_proj.weight"),
        r"2 of .*gate_proj.*up_proj",
        id="two of a layer are exchanged",
    ),
    pytest.param(
        exchanged("model.layers.0.mlp.down_proj.weight", LAYER + "mlp.down_proj.weight"),
        r"2 of .*layers.0.mlp.down_proj.*layers.1.mlp.down_proj",
        id="layers are exchanged",
    ),
    pytest.param(off_by_a_hundredth(LAYER + "self_attn.k_proj.bias"), r"1 of .*k_proj.bias", id="off by a hundredth"),
    pytest.param(
        lambda engine, new, old, version: engine.load(old.items(), version),
        "26 of 26 tensors in the engine differ",
        id="the old ones under the new number",
    ),
    pytest.param(
        lambda engine, new, old, version: None,
        "weight update 2 was not applied: the engine reports version 1",
        id="nothing happens",
    ),
    pytest.param(
        lambda engine, new, old, version: engine.load(new.items(), version - 1),
        "weight update 2 was not applied: the engine reports version 1",
        id="another number",
    ),
]


@pytest.mark.parametrize(("fault", "words"), FAULTS)
def test_a_fault_is_noticed_at_once_and_a_right_update_passes(engine, versions, prompts, fault, words):
    old, new = map(tensors, versions)
    load_and_prove(engine, old.items(), 1, probe(versions[0], prompts), MAX_ERROR)
    with pytest.raises(ParityError, match=words):
        load_and_prove(Faulty(engine, fault, old), new.items(), 2, probe(versions[1], prompts), MAX_ERROR)
    figures = load_and_prove(engine, new.items(), 2, probe(versions[1], prompts), MAX_ERROR)
    assert figures["parity/checked"] == 1
    assert figures["parity/token_mult_prob_error"] < 1.0001
    assert figures["parity/logp_difference_max"] < 1e-4


def test_fixed_tokens_notice_what_has_no_checksum(engine, versions, prompts):
    old, new = map(tensors, versions)
    way = InProcessTransport()
    of_fixed_tokens = replace(way.publish(new.items(), 2, probe(versions[1], prompts), 1.0001), tensors=())
    engine.load(new.items(), 2)
    assert prove(engine, of_fixed_tokens)["parity/checked"] == 0
    for wrong in (old, new | {LAYER + "mlp.down_proj.weight": new[LAYER + "mlp.down_proj.weight"] + 1e-2}):
        engine.load(wrong.items(), 2)
        with pytest.raises(ParityError, match=r"update 2 sampler and learner differ: for \d+ fixed tokens"):
            prove(engine, of_fixed_tokens)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)  # the other one takes any number of tokens
def test_an_engine_that_cannot_take_the_fixed_tokens_is_explained(engine, versions):
    old = tensors(versions[0])
    too_long = Probe(((1,) * 100_000,), ((0.0,) * 99_999,))
    manifest = InProcessTransport().publish(old.items(), 7, too_long, MAX_ERROR)
    engine.load(old.items(), 7)
    with pytest.raises(SamplerError, match=r"refused the probe of 100000 tokens.*Increase engine.max_model_len"):
        prove(engine, manifest)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_an_output_layer_that_stays_behind_is_noticed(engine, versions, monkeypatch):
    """vLLM on a CPU keeps a packed copy of an embedding that is the output layer, too."""
    old, new = map(tensors, versions)
    load_and_prove(engine, old.items(), 1, None, MAX_ERROR)
    monkeypatch.setattr("train.sampling.vllm.append_lm_head", lambda weights: weights)
    with pytest.raises(ParityError, match=r"1 of 26 tensors .*model.embed_tokens.weight"):
        load_and_prove(engine, new.items(), 2, None, MAX_ERROR)


def test_files_in_memory_are_loaded_and_proven(engine, versions, prompts):
    way = SharedMemoryTransport(file_bytes=50_000)
    for version, model in enumerate(versions):
        manifest = way.publish(tensors(model).items(), version, probe(model, prompts), MAX_ERROR)
        engine.load(way.fetch(manifest), version)
        assert prove(engine, manifest)["parity/checked"] == 1
    assert len(manifest.files) > 3
    way.close()


def test_the_proof_leaves_answers_in_progress_as_they_are(engine, versions, prompts):
    from train.sampling.protocol import SamplingParams

    sampling = SamplingParams(temperature=0.8, top_p=1.0, max_tokens=20, logprobs=True)
    manifest = InProcessTransport().publish(tensors(versions[0]).items(), 3, probe(versions[0], prompts), MAX_ERROR)

    def drawn(proofs):
        for number, ids in enumerate(prompts):
            engine.add(str(number), ids, number, sampling)
        answers = {}
        for step in range(100):
            if step == 5:
                engine.load(tensors(versions[0]).items(), 3)
                for _ in range(proofs):
                    prove(engine, manifest)
            answers |= engine.step()
            if len(answers) == len(prompts):
                return {key: answer.token_ids for key, answer in answers.items()}
        raise AssertionError("the engine does not end")

    engine.load(tensors(versions[0]).items(), 3)
    assert drawn(0) == drawn(2)


def test_parts_on_several_gpus_make_up_the_whole():
    from train.weights.checksums import Region, compute_partial_checksum

    whole = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    norm = torch.arange(6.0)

    def part(rows, tensor=whole):
        place = Region((rows[1] - rows[0], 6), (6, 1), rows[0] * 6)
        return (
            "w",
            place.sizes,
            place.strides,
            place.offset,
            compute_partial_checksum(tensor[slice(*rows)], place, (8, 6)),
        )

    def copy(tensor):
        return ("norm", (6,), (1,), 0, compute_partial_checksum(tensor, Region((6,), (1,), 0), (6,)))

    shapes = {"w": (8, 6), "norm": (6,)}
    found = combine_checksums([part((0, 4)), copy(norm), part((4, 8)), copy(norm)], shapes)
    assert found == {"w": compute_checksum(whole), "norm": compute_checksum(norm)}
    assert combine_checksums([part((0, 4)), copy(norm)], shapes) == {
        "norm": compute_checksum(norm)
    }  # a part is nowhere
    assert combine_checksums([copy(norm), copy(norm + 1)], shapes) == {"norm": DIFFERENT_COPIES}
    assert combine_checksums([part((0, 4)), part((4, 8), whole + 1)], shapes)["w"] != compute_checksum(whole)
    assert to_hex(-1) == "f" * 16
