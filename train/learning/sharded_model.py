"""Load a model of which each rank holds only its parts: no process reads, or ever holds, the whole.

The model is built without memory (on torch's meta device), divided among the ranks, and filled: each rank reads from
the safetensors files only the slices that are its own. transformers converts names, and joins experts, as it does for
whole models.

MERGED The LoRA layers of a model alone, as peft, transformers and vLLM read them.

The whole model with the layers merged in needs no such support; this is for those who keep many adapters of one model.

MERGED Write a model's weights as safetensors files of bounded size, which transformers and vLLM read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.config import ModelConfig
from train.errors import LearnerError
from train.learning.attention import PACKED
from train.learning.policy import (
    add_lora_and_checkpointing,
    base_dtype,
    enable_packed_attention,
    init_lora,
    is_lora,
    load_hf_config,
    set_train_mode,
)
from train.learning.ranks import full_tensor
from train.weights.source import copy_to_cpu

_PROBE_VOCABULARY = 64
_NO_FILES = (
    "{}: torchrun needs weights in safetensors files, of which each rank reads its own part. Convert the model first: "
    "load it with transformers and save it with save_pretrained."
)


def empty_model(config: ModelConfig) -> Any:
    """Return the model on the meta device, with LoRA layers if the configuration asks for them.

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


def load_shards(causal: Any, config: ModelConfig, *, seed: int, device: str) -> None:
    """Read this rank's parts of the weights into an empty model that is divided already.

    Raises LearnerError if files or weights are missing, or do not fit.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import convert_and_load_state_dict_in_model
    from transformers.modeling_utils import LoadStateDictConfig

    files = _open(config.path)
    adapted = {name.removesuffix(".base_layer.weight") for name, _ in causal.named_parameters() if "base_layer" in name}
    names = {f"{module}.{kind}": f"{module}.base_layer.{kind}" for module in adapted for kind in ("weight", "bias")}
    trained = {name for name, weight in causal.named_parameters() if weight.requires_grad}
    try:
        slices = {names.get(name, name): _Slices(file.get_slice(name)) for file in files for name in file.keys()}  # noqa: SIM118
        how = LoadStateDictConfig(
            pretrained_model_name_or_path=config.path,
            dtype=base_dtype(config),
            device_map={"": device},
            weight_mapping=get_model_conversion_mapping(causal),  # type: ignore[arg-type]
        )
        loading, _ = convert_and_load_state_dict_in_model(causal, slices, how)
        init_lora(causal, seed, device)
        loading.missing_keys = {name for name in loading.missing_keys if not is_lora(name)}
        for weight in causal.parameters():
            weight._is_hf_initialized = True  # otherwise transformers would draw the weights of LoRA layers anew
        loading = type(causal)._finalize_model_loading(causal, how, loading)
    except Exception as error:  # many types of exceptions, as when a whole model is loaded
        raise LearnerError(f"{config.path} cannot be loaded: {str(error).strip() or type(error).__name__}") from error
    for name, weight in causal.named_parameters():
        weight.requires_grad_(name in trained)
    if missing := sorted(loading.missing_keys):
        raise LearnerError(f"{config.path}: weights are missing: {', '.join(missing[:5])}. Give a complete model.")


def check_packing_support(path: str) -> None:
    """Raise LearnerError if the model's family does not work with packed rows and plain logits.

    This is tried on a model with the same configuration but random weights, few layers and few words.
    """
    from transformers import AutoModelForCausalLM

    settings = load_hf_config(path)
    text = settings.get_text_config()
    kinds = list(getattr(text, "layer_types", None) or ["all the same"] * text.num_hidden_layers)
    n_layers = max(2, *(kinds.index(kind) + 1 for kind in kinds))
    text.num_hidden_layers = min(n_layers, len(kinds))
    if vars(text).get("layer_types"):
        text.layer_types = kinds[: text.num_hidden_layers]
    text.vocab_size = _PROBE_VOCABULARY
    text.pad_token_id = text.bos_token_id = text.eos_token_id = None
    try:
        shallow = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)  # type: ignore[no-untyped-call]
    except Exception as error:  # many types of exceptions, as when a whole model is loaded
        raise LearnerError(f"{path}: a model of its family cannot be built ({error}). Choose another.") from error
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in shallow.parameters():
            if weight.ndim > 1:  # so large that predictions are far from uniform, and depend on attention
                weight.normal_(std=weight.shape[-1] ** -0.5, generator=generator)
    set_train_mode(shallow)
    enable_packed_attention(shallow, path)


class _Slices:
    """A tensor in a file, of which parts are read, as safetensors' get_slice returns it.

    The parts are copies, since safetensors returns views of the file, which may be deleted while the run lasts.
    """

    def __init__(self, in_file: Any) -> None:
        self._in_file = in_file
        self.get_shape, self.get_dtype = in_file.get_shape, in_file.get_dtype

    def __getitem__(self, part: Any) -> Tensor:
        return torch.as_tensor(self._in_file[part]).to(torch.float32, copy=True)


def _open(path: str) -> list[Any]:
    """Return the model's safetensors files, opened. Those of a model on the Hub are fetched if they are not here."""
    from safetensors import safe_open
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
    from transformers.utils.hub import cached_file, get_checkpoint_shard_files

    folder = str(Path(path).expanduser())
    fetch: Callable[[str], str | None] = lambda name: cached_file(  # noqa: E731
        folder, name, _raise_exceptions_for_missing_entries=False
    )
    try:
        if (index := fetch(SAFE_WEIGHTS_INDEX_NAME)) is not None:
            files, _ = get_checkpoint_shard_files(folder, index)  # type: ignore[no-untyped-call]
        elif (single := fetch(SAFE_WEIGHTS_NAME)) is not None:
            files = [single]
        else:
            raise LearnerError(_NO_FILES.format(path))
        return [safe_open(file, framework="pt") for file in files]
    except LearnerError:
        raise
    except Exception as error:  # many types of exceptions: no network, damaged files
        raise LearnerError(f"{path} cannot be loaded: {str(error).strip() or type(error).__name__}") from error


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


FILE_BYTES = 2 * 2**30  # bytes of a file, unless a single tensor has more; as many are in memory while it is written


def write_weights(weights: Iterable[tuple[str, Tensor]], folder: Path, file_bytes: int = FILE_BYTES) -> None:
    """Write the tensors as they come: one file, or several with an index, under the names that transformers expects.

    Raises OSError or SafetensorError if they cannot be written.
    """
    from safetensors.torch import save_file

    files: list[list[str]] = []
    total_bytes = 0
    for tensors in copy_to_cpu(weights, file_bytes):
        save_file(tensors, folder / _unfinished(len(files)), {"format": "pt"})
        files.append(list(tensors))
        total_bytes += sum(tensor.nbytes for tensor in tensors.values())
    names = [f"model-{number + 1:05d}-of-{len(files):05d}.safetensors" for number in range(len(files))]
    if len(files) == 1:
        names = ["model.safetensors"]
    for number, name in enumerate(names):
        (folder / _unfinished(number)).rename(folder / name)
    if len(files) > 1:
        weight_map = {tensor: name for name, tensors in zip(names, files, strict=True) for tensor in tensors}
        index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _unfinished(number: int) -> str:
    return f".{number}.safetensors"
