"""The files of a model: each rank reads its shards of the weights, and rank 0 writes the trained model.

With several ranks, no process ever holds the whole model. The model is built on torch's meta device and sharded; then
each rank reads its slices of the safetensors files. transformers converts names and joins experts as for whole models.
"""

import copy
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.config import ModelConfig
from train.errors import LearnerError, suggest_remedy
from train.learning.attention import PACKED
from train.learning.policy import (
    add_lora_and_checkpointing,
    check_complete,
    choose_base_dtype,
    enable_packed_attention,
    init_lora,
    is_lora,
    load_hf_config,
    set_train_mode,
    translate_loading_errors,
)
from train.learning.ranks import gather_full_tensor
from train.weights.source import copy_to_cpu

ADAPTER = "adapter"  # subfolder for the LoRA layers
FILE_BYTES = 2 * 2**30  # maximum size of a file, unless a single tensor is larger; one file is buffered in memory
_PREFIX, _NAME = "base_model.model.", ".default"  # peft's prefix of module names, and the name of its default adapter
_PROBE_VOCABULARY = 64


def build_empty_model(config: ModelConfig) -> Any:
    """Build the model on the meta device, with LoRA layers if configured.

    Raises LearnerError if there is no such model, or it is quantized.
    """
    from transformers import AutoModelForCausalLM

    settings = load_hf_config(config.path)
    with torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)  # type: ignore[no-untyped-call]
    set_train_mode(causal)
    causal.set_attn_implementation(PACKED)
    with torch.device("meta"):
        add_lora_and_checkpointing(causal, config)
    return causal


def load_shards(causal: Any, config: ModelConfig, *, seed: int, device: torch.device) -> None:
    """Read this rank's shards of the weights into a sharded empty model.

    Raises LearnerError if files or weights are missing, or have other shapes than the model.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import convert_and_load_state_dict_in_model
    from transformers.modeling_utils import LoadStateDictConfig

    files = _open_weight_files(config.path)
    adapted = {name.removesuffix(".base_layer.weight") for name, _ in causal.named_parameters() if "base_layer" in name}
    names = {f"{module}.{kind}": f"{module}.base_layer.{kind}" for module in adapted for kind in ("weight", "bias")}
    trained = {name for name, weight in causal.named_parameters() if weight.requires_grad}
    with translate_loading_errors(config.path):
        slices = {names.get(name, name): _LazyTensor(file.get_slice(name)) for file in files for name in file.keys()}  # noqa: SIM118
        loading_config = LoadStateDictConfig(
            pretrained_model_name_or_path=config.path, dtype=choose_base_dtype(config), device_map={"": device},
            weight_mapping=get_model_conversion_mapping(causal),  # type: ignore[arg-type]
        )  # fmt: skip
        loading, _ = convert_and_load_state_dict_in_model(causal, slices, loading_config)
        init_lora(causal, seed, device)
        loading.missing_keys = {name for name in loading.missing_keys if not is_lora(name)}
        for weight in causal.parameters():
            weight._is_hf_initialized = True  # otherwise transformers would reinitialize LoRA layers
        loading = type(causal)._finalize_model_loading(causal, loading_config, loading)
    for name, weight in causal.named_parameters():
        weight.requires_grad_(name in trained)
    check_complete(config.path, loading.missing_keys)


def check_packing_support(path: str) -> None:
    """Raise LearnerError if models of this family cannot be trained on packed rows.

    Tests a model of the same configuration with random weights, few layers and a small vocabulary.
    """
    from transformers import AutoModelForCausalLM

    settings = load_hf_config(path)
    text = settings.get_text_config()
    kinds = list(getattr(text, "layer_types", None) or ["all the same"] * text.num_hidden_layers)
    text.num_hidden_layers = min(max(2, *(kinds.index(kind) + 1 for kind in kinds)), len(kinds))
    if vars(text).get("layer_types"):
        text.layer_types = kinds[: text.num_hidden_layers]
    text.vocab_size = _PROBE_VOCABULARY
    text.pad_token_id = text.bos_token_id = text.eos_token_id = None
    try:
        shallow = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)  # type: ignore[no-untyped-call]
    except Exception as error:  # transformers raises many types of errors
        raise LearnerError(
            f"{path}: transformers cannot build a model of this family ({error}). Choose a model of another family."
        ) from error
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in shallow.parameters():
            if weight.ndim > 1:  # a std so large that predictions are far from uniform, and depend on attention
                weight.normal_(std=weight.shape[-1] ** -0.5, generator=generator)
    set_train_mode(shallow)
    enable_packed_attention(shallow, path)


class _LazyTensor:
    """A lazily read tensor of a file, in float32, with the interface of safetensors' get_slice.

    Slices are copies instead of memory maps, since the file may be deleted during the run.
    """

    def __init__(self, in_file: Any) -> None:
        self._in_file = in_file
        self.get_shape, self.get_dtype = in_file.get_shape, in_file.get_dtype

    def __getitem__(self, part: Any) -> Tensor:
        return torch.as_tensor(self._in_file[part]).to(torch.float32, copy=True)


def _open_weight_files(path: str) -> list[Any]:
    """Open the model's safetensors files, and fetch them from the Hub if necessary."""
    from safetensors import safe_open
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
    from transformers.utils.hub import cached_file, get_checkpoint_shard_files

    folder = str(Path(path).expanduser())
    fetch: Callable[[str], str | None] = partial(cached_file, folder, _raise_exceptions_for_missing_entries=False)
    with translate_loading_errors(path):
        if (index := fetch(SAFE_WEIGHTS_INDEX_NAME)) is not None:
            files, _ = get_checkpoint_shard_files(folder, index)  # type: ignore[no-untyped-call]
        elif (single := fetch(SAFE_WEIGHTS_NAME)) is not None:
            files = [single]
        else:
            raise LearnerError(
                f"{path}: the model has no safetensors files, from which ranks read their shards under torchrun. "
                "Convert it: load the model with transformers, and save it with save_pretrained."
            )
        return [safe_open(file, framework="pt") for file in files]


def write_model(
    folder: Path, weights: Iterable[tuple[str, Tensor]], adapter: Callable[[], Mapping[str, Tensor]] | None,
    causal: Any, config: ModelConfig,
) -> None:  # fmt: skip
    """Write a model and its tokenizer atomically, for transformers and vLLM.

    weights  full tensors in `model.dtype`
    adapter  returns the LoRA layers, called after the iteration over `weights`; None without LoRA

    Raises LearnerError if they cannot be written.
    """
    from safetensors import SafetensorError

    aside = folder.with_name(f".{folder.name}.writing")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        write_weights(weights, aside)
        _write_settings(aside, causal, config)
        if adapter is not None:
            write_adapter(adapter(), config, aside / ADAPTER)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise LearnerError(
            f"cannot write the model to {folder}: {error}. {suggest_remedy(error)}; the same command with --resume "
            "continues."
        ) from error


def _write_settings(folder: Path, causal: Any, config: ModelConfig) -> None:
    from transformers import AutoTokenizer
    from transformers.utils import GENERATION_CONFIG_NAME
    from transformers.utils.hub import cached_file

    path = str(Path(config.path).expanduser())
    settings = copy.deepcopy(causal.config)
    settings.dtype = getattr(torch, config.dtype)  # otherwise float32, the dtype of trained weights
    settings.architectures = [type(causal).__name__]
    settings.save_pretrained(folder)
    generation = cached_file(path, GENERATION_CONFIG_NAME, _raise_exceptions_for_missing_entries=False)
    if generation is not None:
        shutil.copyfile(generation, folder / GENERATION_CONFIG_NAME)
    AutoTokenizer.from_pretrained(path).save_pretrained(folder)


def gather_adapter_weights(causal: Any) -> dict[str, Tensor]:
    """Gather the full LoRA tensors under peft's names. All ranks that share the model must call this."""
    lora = {name: weight for name, weight in causal.named_parameters() if is_lora(name)}
    return {_PREFIX + name.replace(_NAME, ""): gather_full_tensor(weight).cpu() for name, weight in lora.items()}


def write_adapter(weights: Mapping[str, Tensor], config: ModelConfig, folder: Path) -> None:
    """Write adapter_config.json and adapter_model.safetensors to a new folder. Raises OSError or SafetensorError."""
    from peft import LoraConfig
    from safetensors.torch import save_file

    modules = {name.removeprefix(_PREFIX).rpartition(".lora_")[0].rpartition(".")[2] for name in weights}
    settings = LoraConfig(
        r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=sorted(modules),  # type: ignore[arg-type]
        base_model_name_or_path=config.path, task_type="CAUSAL_LM", inference_mode=True,
    )  # fmt: skip
    folder.mkdir(parents=True)
    settings.save_pretrained(str(folder))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "adapter_model.safetensors")


def write_weights(weights: Iterable[tuple[str, Tensor]], folder: Path, file_bytes: int = FILE_BYTES) -> None:
    """Write tensors to one file, or to several files with an index, under transformers' file names.

    Raises OSError or SafetensorError if they cannot be written.
    """
    from safetensors.torch import save_file

    files: list[list[str]] = []
    total_bytes = 0
    for group in copy_to_cpu(weights, file_bytes):
        save_file(group, folder / f".{len(files)}.safetensors", {"format": "pt"})
        files.append(list(group))
        total_bytes += sum(tensor.nbytes for tensor in group.values())
    weight_map: dict[str, str] = {}
    for number, tensors in enumerate(files):
        part = f"-{number + 1:05d}-of-{len(files):05d}" if len(files) > 1 else ""
        (folder / f".{number}.safetensors").rename(folder / f"model{part}.safetensors")
        weight_map |= dict.fromkeys(tensors, f"model{part}.safetensors")
    if len(files) > 1:
        index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
