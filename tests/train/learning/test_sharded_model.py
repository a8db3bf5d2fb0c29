"""A model that is filled from slices of its files is the one that transformers loads whole."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402

from train.config import ModelConfig  # noqa: E402
from train.errors import LearnerError  # noqa: E402
from train.learning.model_files import build_empty_model, check_packing_support, load_shards  # noqa: E402
from train.learning.policy import export_tensors, load_causal_lm  # noqa: E402

FAMILIES = ["qwen2", "qwen3", "llama", "mistral", "phi", "qwen3-moe"]


def filled(model):
    causal = build_empty_model(model)
    assert all(weight.is_meta for weight in causal.parameters())
    load_shards(causal, model, seed=3, device="cpu")
    return causal


@pytest.mark.parametrize("family", FAMILIES)
def test_a_filled_model_is_the_one_that_is_loaded_whole(tmp_path, family):
    model = ModelConfig(random_models.folder(tmp_path, family))
    ours, whole = filled(model), load_causal_lm(model)
    for kind in ("named_parameters", "named_buffers"):
        found, expected = dict(getattr(ours, kind)()), dict(getattr(whole, kind)())
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in found)
    assert dict(export_tensors(ours, torch.float32)).keys() == dict(export_tensors(whole, torch.float32)).keys()
    tied = [each.get_output_embeddings().weight is each.get_input_embeddings().weight for each in (ours, whole)]
    assert tied[0] == tied[1]


def test_lora_layers_are_those_of_a_model_that_is_loaded_whole(tmp_path):
    model = ModelConfig(random_models.folder(tmp_path, "phi"), lora_rank=2)
    ours, whole = dict(filled(model).named_parameters()), dict(load_causal_lm(model, seed=3).named_parameters())
    assert ours.keys() == whole.keys()
    assert all(torch.equal(ours[name], whole[name]) for name in ours)
    assert {name for name in ours if ours[name].requires_grad} == {name for name in ours if ".lora_" in name}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_that_work_pass_the_check_without_their_weights(tmp_path, family):
    path = random_models.folder(tmp_path, family)
    (tmp_path / "model.safetensors").unlink()
    check_packing_support(path)


@pytest.mark.parametrize("family", ["gemma2", "granite", "mamba"])
def test_families_with_unsupported_logits_or_rows_do_not(tmp_path, family):
    with pytest.raises(LearnerError, match="another"):
        check_packing_support(random_models.folder(tmp_path, family))


def test_a_model_in_several_files_is_read_from_all_of_them(tmp_path):
    from transformers import AutoModelForCausalLM

    path = random_models.folder(tmp_path / "whole")
    AutoModelForCausalLM.from_pretrained(path).save_pretrained(tmp_path / "parts", max_shard_size="20kB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 2
    ours, whole = filled(ModelConfig(str(tmp_path / "parts"))), load_causal_lm(ModelConfig(path))
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), whole.parameters(), strict=True))


def test_missing_weights_and_files_are_named(tmp_path):
    from safetensors.torch import load_file, save_file

    model, file = ModelConfig(random_models.folder(tmp_path)), tmp_path / "model.safetensors"
    kept = load_file(file)
    del kept["model.layers.1.mlp.up_proj.weight"]
    save_file(kept, file, {"format": "pt"})
    with pytest.raises(LearnerError, match=r"missing: model.layers.1.mlp.up_proj.weight"):
        filled(model)
    kept["model.layers.1.mlp.up_proj.weight"] = torch.ones(3, 3)
    save_file(kept, file, {"format": "pt"})
    with pytest.raises(LearnerError, match="cannot be loaded"):
        filled(model)
    file.write_bytes(b"torn")
    with pytest.raises(LearnerError, match="cannot be loaded"):
        filled(model)
    file.unlink()
    with pytest.raises(LearnerError, match="save_pretrained"):
        filled(model)
