"""The manifest of one version of the weights, sufficient to fetch and verify it."""

from msgspec import Struct, field


class WeightFile(Struct, frozen=True):
    """A safetensors file; its name is relative to the folder or URL of the version."""

    name: str
    size: int  # bytes
    blake3: str  # hexadecimal


class SentTensor(Struct, frozen=True):
    """A tensor as the learner sent it, under its name in the model's files.

    dtype     torch's name, such as bfloat16
    checksum  see checksums.py; 16 hexadecimal digits
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: str


class Probe(Struct, frozen=True):
    """Fixed tokens, and their log-probabilities under the weights, before temperature.

    tokens    the ids of each sequence
    logprobs  for each sequence, one for each of its last tokens, such as the completion without its prompt
    """

    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]


class WeightManifest(Struct, frozen=True):
    """One version of the weights.

    files      empty for transports without files
    folder     folder of the files on the learner's machine; other machines fetch them over HTTP
    tensors    tensors that an engine must hold after loading
    probe      log-probabilities that the engine must reproduce
    max_error  upper bound of the mean exp |log-probability difference| on the probe
    """

    version: int
    files: tuple[WeightFile, ...] = ()
    folder: str = ""
    tensors: tuple[SentTensor, ...] = ()
    probe: Probe | None = None
    max_error: float = field(name="most_error", default=1.001)
