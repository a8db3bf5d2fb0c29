"""Signed manifests of weight versions, and the paths of their files.

runs/RUN/latest             LatestVersion, signed; replaced periodically
runs/RUN/VERSION/manifest   BroadcastManifest, signed; immutable
runs/RUN/VERSION/FILE       NAME.safetensors of a full version, or NAME.safetensors.delta, the delta from the version
                            `base`; immutable, fetched by byte ranges
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

_MANIFEST_DOMAIN, _LATEST_DOMAIN = "curate-weights-1", "curate-latest-1"
RUN_PATTERN = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
DELTA = ".delta"
_FILE_PATTERN = re.compile(r"\w[\w.-]{0,99}\.safetensors", re.ASCII)  # no path separators, so no path traversal
MAX_SHARD_BYTES = 64 * 2**20
MAX_SHARDS = 100_000
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_LATEST_BYTES = 64 * 2**10
_DIGEST_BYTES = 32


class WeightShard(Struct, frozen=True, array_like=True):
    """A byte range of a file, fetched by one request, with its blake3 digest."""

    file: str
    offset: int
    length: int
    digest: bytes


class BroadcastManifest(Struct, frozen=True):
    """The manifest of a published version.

    base               version to which the deltas apply; None for a full version
    shards             shards of all files, in order of file and offset
    weights            manifest of the resulting files
    next_full_version  the next full version is at most this number
    """

    run: str
    version: int
    base: int | None
    shards: tuple[WeightShard, ...]
    weights: WeightManifest
    next_full_version: int = field(name="next_anchor")

    @property
    def n_bytes(self) -> int:
        return sum(shard.length for shard in self.shards)


class LatestVersion(Struct, frozen=True):
    """The newest version of a run.

    manifest_digest  blake3 digest of the signed manifest
    issued_at        time of signing, in seconds since 1970; signed periodically, so an old time shows a stale relay
    ledger_head      digest of the newest entry of the run's ledger, published for later audits; empty without a ledger
    """

    run: str
    version: int
    manifest_digest: bytes = field(name="manifest")
    issued_at: float
    ledger_head: bytes = field(name="ledger", default=b"")


def sanitize_run_name(name: str) -> str:
    """Return a run's name for paths. Replaces characters other than ASCII letters, digits and "_.-" with "-"."""
    sanitized = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:100]
    return sanitized if RUN_PATTERN.fullmatch(sanitized) else f"run{sanitized}"[:100]


def build_latest_path(run: str) -> str:
    return f"runs/{run}/latest"


def build_version_path(run: str, version: int) -> str:
    return f"runs/{run}/{version}"


def build_manifest_path(run: str, version: int) -> str:
    return f"runs/{run}/{version}/manifest"


def build_file_path(run: str, version: int, name: str) -> str:
    return f"runs/{run}/{version}/{name}"


def sign_manifest(manifest: BroadcastManifest, key: Ed25519PrivateKey) -> bytes:
    return append_signature(_MANIFEST_DOMAIN, msgspec.msgpack.encode(manifest), key)


def sign_latest(latest: LatestVersion, key: Ed25519PrivateKey) -> bytes:
    return append_signature(_LATEST_DOMAIN, msgspec.msgpack.encode(latest), key)


def read_manifest(signed: bytes, run: str, version: int, public_key: bytes) -> BroadcastManifest:
    """Verify and decode a manifest. Raises BadSignature unless the key signed it for this run and version."""
    manifest = _decode(verify_and_unwrap(_MANIFEST_DOMAIN, signed, public_key), BroadcastManifest)
    if manifest.run != run or manifest.version != version or manifest.weights.version != version:
        raise BadSignature(
            f"the signed manifest is for {manifest.run}, version {manifest.version}, not for {run}, version {version}"
        )
    if fault := _find_fault(manifest):
        raise BadSignature(f"the manifest of version {version} is invalid in {fault}")
    return manifest


def read_latest(signed: bytes, run: str, public_key: bytes) -> LatestVersion:
    """Verify and decode a signed `latest`. Raises BadSignature unless the key signed it for this run."""
    latest = _decode(verify_and_unwrap(_LATEST_DOMAIN, signed, public_key), LatestVersion)
    if latest.run != run:
        raise BadSignature(f"`latest` is for the run {latest.run}, not {run}")
    if (
        latest.version < 0
        or len(latest.manifest_digest) != _DIGEST_BYTES
        or len(latest.ledger_head) not in (0, _DIGEST_BYTES)
    ):
        raise BadSignature(f"`latest` has an invalid digest, or an invalid version: {latest.version}")
    return latest


def add_base_versions(versions: Iterable[int], bases: Mapping[int, int | None]) -> set[int]:
    """Return these versions with their bases, transitively; omit unavailable versions.

    bases: base of each available version; None for full versions
    """
    needed: set[int] = set()
    for version in versions:
        base: int | None = version
        while base is not None and base in bases and base not in needed:
            needed.add(base)
            base = bases[base]
    return needed


def has_same_weights(one: WeightManifest, other: WeightManifest) -> bool:
    """Return whether two manifests describe the same weights, ignoring file names and folders."""
    return (
        one.version == other.version
        and [(file.size, file.blake3) for file in one.files] == [(file.size, file.blake3) for file in other.files]
        and one.tensors == other.tensors
    )


def compute_digest(data: bytes) -> bytes:
    return blake3(data).digest()


def _find_fault(manifest: BroadcastManifest) -> str:
    """Return the invalid part of a manifest; empty if it is valid."""
    files, ends = manifest.weights.files, dict[str, int]()
    if not files or any(file.size <= 0 or not _FILE_PATTERN.fullmatch(file.name) for file in files):
        return "its files"
    if len({file.name for file in files}) < len(files):
        return "a duplicate file"
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


def _decode(data: bytes, kind: type[_Message]) -> _Message:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadSignature(f"cannot decode the signed content: {error}. Install the same version of curate.") from None
