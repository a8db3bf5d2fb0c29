"""What a version of the weights consists of, as bytes that are checked before they are believed.

runs/RUN/latest             LatestVersion, signed; changes with each version
runs/RUN/VERSION/manifest   BroadcastManifest, signed; never changes
runs/RUN/VERSION/FILE       the files of a whole version, NAME.safetensors; or their differences from the version
                            `base`, NAME.safetensors.delta. They never change, and are fetched by byte ranges
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, field

from train.swarm.signatures import BadSignature, append_signature, verify_and_unwrap
from train.weights.manifest import WeightManifest

_DOMAIN_OF_MANIFESTS, _DOMAIN_OF_LATEST = "curate-weights-1", "curate-latest-1"
RUN_PATTERN = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
DELTA = ".delta"
_FILE_PATTERN = re.compile(r"\w[\w.-]{0,99}\.safetensors", re.ASCII)  # names must not lead out of their folder
MAX_SHARD_BYTES = 64 * 2**20
MAX_SHARDS = 100_000
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_LATEST_BYTES = 64 * 2**10
_DIGEST_BYTES = 32


class WeightShard(Struct, frozen=True, array_like=True):
    """A byte range of a file of a version, with its blake3 digest: what one request fetches.

    offset, length  bytes
    """

    file: str
    offset: int
    length: int
    digest: bytes


class BroadcastManifest(Struct, frozen=True):
    """One version, as it is broadcast.

    base               version that the files are differences from; None: they are whole
    shards             of all files, file by file, each from its beginning to its end
    weights            the files that result, with their digests
    next_full_version  the version that will be whole again, at the latest
    """

    run: str
    version: int
    base: int | None
    shards: tuple[WeightShard, ...]
    weights: WeightManifest
    next_full_version: int = field(name="next_anchor")

    @property
    def n_bytes(self) -> int:
        """The bytes that are broadcast."""
        return sum(shard.length for shard in self.shards)


class LatestVersion(Struct, frozen=True):
    """The newest version of a run.

    manifest_digest  blake3 digest of the sealed manifest
    issued_at        seconds since 1970; it is renewed while the run lives, so an old one tells that a relay is behind
    ledger_head      digest of the newest entry of the run's ledger, so that every client is a witness of it; empty if
                     the run has none
    """

    run: str
    version: int
    manifest_digest: bytes = field(name="manifest")
    issued_at: float
    ledger_head: bytes = field(name="ledger", default=b"")


def sanitize_run_name(name: str) -> str:
    """Return the name under which a run's weights are broadcast: that of the run, without what paths cannot have."""
    fitting = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:100]
    return fitting if RUN_PATTERN.fullmatch(fitting) else f"run{fitting}"[:100]


def latest_path(run: str) -> str:
    """Return the path of a run's newest version."""
    return f"runs/{run}/latest"


def version_path(run: str, version: int) -> str:
    """Return the path of the folder of a version."""
    return f"runs/{run}/{version}"


def manifest_path(run: str, version: int) -> str:
    """Return the path of a manifest."""
    return f"runs/{run}/{version}/manifest"


def file_path(run: str, version: int, name: str) -> str:
    """Return the path of a file, whole or a difference."""
    return f"runs/{run}/{version}/{name}"


def sign_manifest(manifest: BroadcastManifest, key: Ed25519PrivateKey) -> bytes:
    """Return a manifest as its origin publishes it."""
    return append_signature(_DOMAIN_OF_MANIFESTS, msgspec.msgpack.encode(manifest), key)


def sign_latest(latest: LatestVersion, key: Ed25519PrivateKey) -> bytes:
    """Return the name of the newest version as its origin publishes it."""
    return append_signature(_DOMAIN_OF_LATEST, msgspec.msgpack.encode(latest), key)


def read_manifest(signed: bytes, run: str, version: int, public: bytes) -> BroadcastManifest:
    """Return the manifest of a version. Raises BadSignature unless the key has signed it for this run and version."""
    manifest = _decoded(verify_and_unwrap(_DOMAIN_OF_MANIFESTS, signed, public), BroadcastManifest)
    if manifest.run != run or manifest.version != version or manifest.weights.version != version:
        raise BadSignature(f"this is the manifest of another version: {manifest.run} {manifest.version}")
    if fault := _fault(manifest):
        raise BadSignature(f"the manifest of version {version} makes no sense: {fault}")
    return manifest


def read_latest(signed: bytes, run: str, public: bytes) -> LatestVersion:
    """Return the newest version that somebody names. Raises BadSignature unless the key has signed it for this run."""
    latest = _decoded(verify_and_unwrap(_DOMAIN_OF_LATEST, signed, public), LatestVersion)
    if latest.run != run:
        raise BadSignature(f"this names the newest version of another run: {latest.run}")
    if (
        latest.version < 0
        or len(latest.manifest_digest) != _DIGEST_BYTES
        or len(latest.ledger_head) not in (0, _DIGEST_BYTES)
    ):
        raise BadSignature("what names the newest version makes no sense")
    return latest


def with_base_versions(versions: Iterable[int], bases: Mapping[int, int | None]) -> set[int]:
    """Return these versions and all that they are differences from, as far as they are known.

    bases   of each version that is known
    """
    found: set[int] = set()
    for version in versions:
        wanted: int | None = version
        while wanted is not None and wanted in bases and wanted not in found:
            found.add(wanted)
            wanted = bases[wanted]
    return found


def has_same_weights(one: WeightManifest, other: WeightManifest) -> bool:
    """Return whether two manifests describe the same weights, whatever their files are called and wherever they are."""
    return (
        one.version == other.version
        and [(file.size, file.blake3) for file in one.files] == [(file.size, file.blake3) for file in other.files]
        and one.tensors == other.tensors
    )


def digest(data: bytes) -> bytes:
    """Return the digest by which shards and manifests are named."""
    return blake3(data).digest()


def _fault(manifest: BroadcastManifest) -> str:
    """Return what is wrong with a manifest; "" if nothing is."""
    files, ends = manifest.weights.files, dict[str, int]()
    if not files or any(file.size <= 0 or not _FILE_PATTERN.fullmatch(file.name) for file in files):
        return "its files"
    if len({file.name for file in files}) < len(files):
        return "a file that comes twice"
    for shard in manifest.shards:
        if not 0 < shard.length <= MAX_SHARD_BYTES or shard.offset != ends.get(shard.file, 0):
            return "the size of its shards"
        if len(shard.digest) != _DIGEST_BYTES:
            return "the digests of its shards"
        ends[shard.file] = shard.offset + shard.length
    if len(manifest.shards) > MAX_SHARDS:
        return "the number of its shards"
    if manifest.base is None and ends != {file.name: file.size for file in files}:
        return "the size of its files"
    if manifest.base is not None and ends.keys() != {file.name + DELTA for file in files}:
        return "the files of its shards"
    if manifest.base is not None and not 0 <= manifest.base < manifest.version:
        return "its base"
    return ""


_Message = TypeVar("_Message", BroadcastManifest, LatestVersion)


def _decoded(data: bytes, kind: type[_Message]) -> _Message:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadSignature(f"this was signed by another version of this program: {error}") from None
