"""A manifest: all that a machine needs in order to fetch one version of the weights and to check what it got."""

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
    logprobs  for each sequence, those of its last tokens: of the answer without its prompt, for example
    """

    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]


class WeightManifest(Struct, frozen=True):
    """One version of the weights.

    files      empty if the weights are handed over without files
    folder     where the files are on the learner's machine; processes of other machines fetch them over HTTP
    tensors    an engine that has loaded the weights must hold exactly these
    probe      and it must agree with these numbers
    max_error  upper bound of the mean of exp |difference of log-probabilities| in that comparison
    """

    version: int
    files: tuple[WeightFile, ...] = ()
    folder: str = ""
    tensors: tuple[SentTensor, ...] = ()
    probe: Probe | None = None
    max_error: float = field(name="most_error", default=1.001)
