"""The LoRA layers of a model alone, as peft, transformers and vLLM read them.

The whole model with the layers merged in needs no such support; this is for those who keep many adapters of one model.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from train.config import ModelConfig
from train.learning.distributed.ranks import full_tensor
from train.learning.model.policy import is_lora

FOLDER = "adapter"
_PREFIX, _NAME = "base_model.model.", ".default"  # what peft puts before the names of modules, and its name of a layer


def adapter_weights(causal: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield each whole tensor of the LoRA layers under peft's name. If ranks share the model, all must call this."""
    for name, weight in causal.named_parameters():
        if is_lora(name):
            yield _PREFIX + name.replace(_NAME, ""), full_tensor(weight)


def write_adapter(weights: Mapping[str, Tensor], config: ModelConfig, folder: Path) -> None:
    """Write adapter_config.json and adapter_model.safetensors to a new folder. Raises OSError or SafetensorError."""
    from peft import LoraConfig
    from safetensors.torch import save_file

    modules = {name.removeprefix(_PREFIX).rpartition(".lora_")[0].rpartition(".")[2] for name in weights}
    settings = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]
        target_modules=sorted(modules),
        base_model_name_or_path=config.path,
        task_type="CAUSAL_LM",
        inference_mode=True,
    )
    folder.mkdir(parents=True)
    settings.save_pretrained(str(folder))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "adapter_model.safetensors")
