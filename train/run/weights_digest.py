"""The digest of a model's weights, by which two runs are compared."""

from pathlib import Path

from train.errors import NoRunError


def weights_digest(model: Path) -> str:
    """Return the first 16 hexadecimal digits of the blake3 digest of the safetensors files in a folder, in their order.

    Raises NoRunError if there are none.
    """
    from blake3 import blake3

    paths = sorted(model.glob("*.safetensors"))
    if not paths:
        raise NoRunError(f"{model} holds no weights: the run is not finished. Continue it with --resume.")
    digest = blake3()
    for path in paths:
        digest.update_mmap(path)
    return digest.hexdigest(length=8)
