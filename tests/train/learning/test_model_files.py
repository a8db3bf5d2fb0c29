"""A model is written piece by piece, and read by transformers as if it had been written at once."""

import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402

from train.config import ModelConfig  # noqa: E402
from train.learning.model_files import write_weights  # noqa: E402
from train.learning.policy import bucket_parameter_names, export_tensors, load_causal_lm  # noqa: E402


@pytest.mark.parametrize(("family", "file_bytes"), [("qwen2", 10_000), ("qwen3-moe", 10_000), ("phi", 10**9)])
def test_files_of_any_size_are_read_as_the_same_model(tmp_path, family, file_bytes):
    from transformers import AutoModelForCausalLM

    causal = load_causal_lm(ModelConfig(random_models.folder(tmp_path / "model", family)))
    written = tmp_path / "written"
    written.mkdir()
    write_weights(export_tensors(causal, torch.float32), written, file_bytes)
    causal.config.save_pretrained(written)
    again, loading = AutoModelForCausalLM.from_pretrained(written, dtype=torch.float32, output_loading_info=True)
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for one, other in zip(again.parameters(), causal.parameters(), strict=True):
        assert torch.equal(one, other)
    files = sorted(path.name for path in written.glob("*.safetensors"))
    if file_bytes > 10_000:
        assert files == ["model.safetensors"]
    else:
        assert len(files) > 2
        index = json.loads((written / "model.safetensors.index.json").read_text())
        assert sorted(set(index["weight_map"].values())) == files
        assert all((written / file).stat().st_size < 2 * file_bytes for file in files)
    assert not any(path.name.startswith(".") for path in written.iterdir())


def test_buckets_are_of_bounded_size_and_hold_each_parameter_once(tmp_path):
    causal = load_causal_lm(ModelConfig(random_models.folder(tmp_path), lora_rank=2))
    groups = bucket_parameter_names(causal, torch.bfloat16, 5000)
    sizes = {name: 2 * weight.numel() for name, weight in causal.named_parameters() if ".lora_" not in name}
    assert [name for group in groups for name in group] == list(sizes)
    assert all(len(group) == 1 or sum(sizes[name] for name in group) <= 5000 for group in groups)
    assert 3 < len(groups) < len(sizes)
