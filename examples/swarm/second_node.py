"""A second implementation of a node:  python examples/swarm/second_node.py INVITE KEY [MODEL]

It follows docs/reference/swarm-protocol.md and imports nothing from this project. It samples with transformers in
float32 on the CPU, one completion after another, for runs with engines of the kind "transformers".

KEY is the file with the node's key, created if missing; MODEL is a folder, by default the run's model.
"""

import base64
import json
import os
import struct
import sys
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
import urllib3
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import msgpack
from safetensors.torch import load
from torch import Tensor

HTTP = urllib3.PoolManager(maxsize=4, timeout=60.0, retries=False)
# Errors for replies that are missing, damaged or not signed by the run.
FAILURES = (urllib3.exceptions.HTTPError, InvalidSignature, LookupError, ValueError)
PRIME, VALUES, CHUNK, WORD = 65497, 128, 32, 0xFFFFFFFF
SLOTS = 64  # completions of leases held at once
BEAT_SECONDS, RETRY_SECONDS = 10.0, 1.0


class RefusedError(Exception):
    """A permanent rejection of this node or its message by the coordinator."""


class NotJoinedError(Exception):
    """The coordinator requires this node to join again; all of its leases have ended."""


ERRORS = {status: RefusedError for status in (400, 403, 413, 422)} | {404: LookupError, 409: NotJoinedError}


def verify(domain: str, data: bytes, signature: bytes, public: bytes) -> None:
    """Raise InvalidSignature unless the key has signed the data for this purpose."""
    Ed25519PublicKey.from_public_bytes(public).verify(signature, domain.encode() + b"\0" + data)


def verify_and_decode(domain: str, signed: bytes, public: bytes) -> Any:
    """Verify and decode a signed message. Raises InvalidSignature."""
    verify(domain, signed[:-64], signed[-64:], public)
    return msgpack.decode(signed[:-64])


def verify_digest(content: bytes, digest: bytes) -> bytes:
    """Return the content. Raises ValueError if it has another digest."""
    if blake3(content).digest() != digest:
        raise ValueError("the content does not have the signed digest")
    return content


class Coordinator:
    """A thread-safe client with signed calls."""

    def __init__(self, invite: str, key: Ed25519PrivateKey) -> None:
        signed = base64.urlsafe_b64decode(invite)
        self.invite = msgpack.decode(signed[:-64])
        verify_and_decode("curate-invite-1", signed, self.invite["public"])
        self.text, self.key, self.node, self.start = invite, key, key.public_key().public_bytes_raw(), bytes(8)

    def join(self) -> Any:
        """Join, and return the settings of the run."""
        engine = f"transformers {transformers.__version__}"
        reply = self.call("/join", invite=self.text.encode(), engine=engine, hardware="a second node")
        return verify_and_decode("curate-settings-1", reply["settings"], self.invite["public"])

    def call(self, path: str, **message: Any) -> Any:
        """Send a message, with retries, and return the reply. Raises NotJoinedError, LookupError and RefusedError."""
        while True:
            try:
                status, headers, body = self._exchange(path, msgpack.encode(message))
            except FAILURES as error:
                print(f"no valid reply from the coordinator: {error!r}", flush=True)
                time.sleep(RETRY_SECONDS)
                continue
            if status in (200, 204):
                return msgpack.decode(body) if body else None
            refusal = json.loads(body)
            if status in ERRORS:
                raise ERRORS[status](refusal["detail"])
            if status == 421:
                self.start = bytes.fromhex(refusal["start"])
            else:
                print(refusal["detail"], flush=True)
                time.sleep(float(headers.get("retry-after", RETRY_SECONDS)))

    def _exchange(self, path: str, body: bytes) -> tuple[int, Any, bytes]:
        """Return status, headers and body of a reply. Raises InvalidSignature unless the run has signed it."""
        now, nonce, run, digest = time.time_ns() // 10**6, os.urandom(16), self.invite["run"], blake3(body).digest()
        head = msgpack.encode(["POST", path, self.node, now, nonce, self.start, run, digest])
        signature = self.key.sign(b"curate-request-1\0" + head)
        parts = {"node": self.node, "nonce": nonce, "start": self.start, "digest": digest, "signature": signature}
        headers = {"run": run, "time": str(now)} | {name: value.hex() for name, value in parts.items()}
        url = self.invite["coordinator"].rstrip("/") + path
        reply = HTTP.request("POST", url, body, headers={f"x-curate-{name}": headers[name] for name in headers})
        answered = msgpack.encode([signature, reply.status, blake3(reply.data).digest()])
        signature = bytes.fromhex(reply.headers["x-curate-signature"])
        verify("curate-reply-1", answered, signature, self.invite["public"])
        return reply.status, reply.headers, reply.data


class Relays:
    """A client of the relays. It caches the files of the last version, the base of the next delta."""

    def __init__(self, invite: Any) -> None:
        self.urls, self.run, self.public = invite["relays"], invite["run"], invite["public"]
        self.version, self.files = -1, dict[str, bytes]()

    def find_newest_version(self) -> int:
        return max(int(latest["version"]) for latest in self._fetch_each("latest", self._read("curate-latest-1")))

    def fetch(self, version: int) -> dict[str, bytes]:
        """Return the files of a version by their names."""
        if version == self.version:
            return self.files
        manifest = next(self._fetch_each(f"{version}/manifest", self._read("curate-weights-1", version=version)))
        base = None if manifest["base"] is None else self.fetch(manifest["base"])
        files: dict[str, bytes] = defaultdict(bytes)
        for name, start, length, digest in manifest["shards"]:
            span = {"range": f"bytes={start}-{start + length - 1}"}
            files[name] += next(self._fetch_each(f"{version}/{name}", partial(verify_digest, digest=digest), span))
        if base is not None:
            files = {name: apply_delta(content, files[f"{name}.delta"]) for name, content in base.items()}
        for file in manifest["weights"]["files"]:
            verify_digest(files[file["name"]], bytes.fromhex(file["blake3"]))
        self.version, self.files = version, files
        return files

    def _read(self, domain: str, **expected: Any) -> Callable[[bytes], Any]:
        def read(signed: bytes) -> Any:
            message = verify_and_decode(domain, signed, self.public)
            if not {"run": self.run, **expected}.items() <= message.items():
                raise ValueError("the file belongs to another run or version")
            return message

        return read

    def _fetch_each(
        self, name: str, read: Callable[[bytes], Any], headers: dict[str, str] | None = None
    ) -> Iterator[Any]:
        """Yield read(file) for each relay that has the file. Retry all relays until one has it."""
        n_found = 0
        while not n_found:
            for url in self.urls:
                try:
                    reply = HTTP.request("GET", f"{url.rstrip('/')}/runs/{self.run}/{name}", headers=headers)
                    found = read(reply.data) if reply.status == (206 if headers else 200) else None
                except FAILURES as error:
                    print(f"{url}: {error!r}", flush=True)
                    continue
                if found is not None:
                    n_found += 1
                    yield found
            if not n_found:
                time.sleep(RETRY_SECONDS)


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Apply a delta to a file, and return the new file."""
    end_of_gaps = 16 + int.from_bytes(delta[:8], "little")
    gaps = np.frombuffer(zlib.decompress(delta[16:end_of_gaps]), np.uint8)
    high, low = np.split(np.frombuffer(zlib.decompress(delta[end_of_gaps:]), np.uint8).astype(np.uint16), 2)
    words, is_last = np.frombuffer(base + b"\0" * (len(base) % 2), "<u2").copy(), gaps != 255
    words[(np.cumsum(gaps, dtype=np.int64) + np.cumsum(is_last) - 1)[is_last]] = high << 8 | low
    return words.tobytes()[: len(base)]


def mix(word: Any) -> Any:
    """Permute 32-bit words: the hash function of the noise."""
    word = (word ^ (word >> 16)) * 0x7FEB352D & WORD
    word = (word ^ (word >> 15)) * 0x846CA68B & WORD
    return word ^ (word >> 16)


def make_gumbel_noise(seed: int, position: int, n_tokens: int) -> Tensor:
    """Return Gumbel noise for all tokens of the vocabulary at a position."""
    keys = [mix(mix(mix(lane ^ seed & WORD) ^ seed >> 32) ^ position) for lane in (0x243F6A88, 0x85A308D3)]
    hashes = mix((torch.arange(n_tokens) * 0x9E3779B9 + keys[0] & WORD) ^ keys[1])
    return -torch.log(-torch.log1p(-((2 * hashes + 1).float() / 2**33).clamp(max=1 - 2**-24)))


def compute_commitment(hidden: list[Tensor]) -> bytes:
    """Return the commitment to the hidden states of one chunk."""
    bits = torch.cat(hidden).bfloat16().view(torch.int16).numpy().astype(np.int64) & 0xFFFF
    indices = np.argsort(-(bits & 0x7FFF), kind="stable")[:VALUES]  # stable: equal values in order of index
    modulus = next(m for m in range(PRIME, 0, -1) if len(set(indices % m)) == len(indices))
    coefficients = interpolate((indices % modulus).tolist(), bits[indices].tolist())
    return struct.pack(f">{1 + VALUES}H", modulus, *coefficients)


def interpolate(x: list[int], y: list[int]) -> list[int]:
    """Return the coefficients of the polynomial through the points, the constant term first, by Newton's method."""
    divided = list(y)
    for order in range(1, len(x)):
        for n in range(len(x) - 1, order - 1, -1):
            divided[n] = (divided[n] - divided[n - 1]) * pow(x[n] - x[n - order], -1, PRIME) % PRIME
    found = [0] * VALUES
    for point, value in zip(reversed(x), reversed(divided), strict=True):
        found = [(below - point * here) % PRIME for below, here in zip([value, *found], found, strict=False)]
    return found


class Node:
    """A node that leases groups, samples their completions, and sends heartbeats until the run ends."""

    def __init__(self, coordinator: Coordinator, model: str) -> None:
        self.coordinator, self.relays, self.name = coordinator, Relays(coordinator.invite), coordinator.node.hex()
        terms = coordinator.join()["terms"]
        if terms["kind"] != "transformers":
            raise RefusedError(f"the run needs engines of the kind {terms['kind']}")
        self.context, path = terms["context_tokens"], model or terms["model"]
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        ends = self.model.generation_config.eos_token_id
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.ends = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        self.loaded, self.leases, self.is_finished = -1, dict[int, Any](), threading.Event()

    def run(self) -> None:
        """Sample until the run ends. Raises RefusedError."""
        threading.Thread(target=self._send_heartbeats, daemon=True).start()
        while not self.is_finished.is_set():
            try:
                for lease in list(self.leases.values()):
                    self._submit(lease)
                self._load()
                reply = self.coordinator.call("/work", worker=self.name, loaded=self.loaded, slots=SLOTS)
            except NotJoinedError as error:
                print(error, flush=True)
                self.leases.clear()
                self.coordinator.join()
                continue
            self.leases.update({lease["group"]: lease for lease in reply.get("leases", [])})
            if reply.get("over"):
                self.is_finished.set()
            self.is_finished.wait(0 if self.leases else reply.get("wait_seconds", RETRY_SECONDS))

    def _load(self) -> None:
        if (newest := self.relays.find_newest_version()) != self.loaded:
            for file in self.relays.fetch(newest).values():
                self.model.load_state_dict(load(file), strict=False)  # files omit tied tensors
            self.loaded = newest
            print(f"weights {newest}", flush=True)

    def _submit(self, lease: Any) -> None:
        answers = list[dict[str, Any]]()
        for number in range(len(lease["seeds"])):
            if lease["group"] not in self.leases or self.is_finished.is_set():  # dropped by the reply to a heartbeat
                return
            answers.append(self._sample(lease, number))
            if answers[-1]["finish"] == "refused":  # one refusal counts for the group
                break
        try:
            statuses = self.coordinator.call("/answers", worker=self.name, answers=answers)
        except LookupError as error:  # the coordinator restarted: the lease has ended
            statuses = [str(error)]
        self.leases.pop(lease["group"], None)
        print(f"lease {lease['group']}: {len(answers)} answers, {', '.join(sorted(set(statuses)))}", flush=True)

    @torch.inference_mode()
    def _sample(self, lease: Any, number: int) -> dict[str, Any]:
        prompt, temperature, seed = lease["prompt"], lease["draw"]["temperature"], lease["seeds"][number]
        named = {"group": lease["group"], "number": number, "attempt": lease["attempt"]}
        budget = min(lease["draw"]["max_tokens"], self.context - len(prompt))
        if budget <= 0:
            return {**named, "tokens": b"", "logprobs": b"", "spans": [], "finish": "refused"}
        ids, cache = torch.tensor([prompt]), None
        tokens, logprobs, hidden = list[int](), list[float](), list[Tensor]()
        while len(tokens) < budget and not (tokens and tokens[-1] in self.ends):
            seen = self.model.get_decoder()(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = seen.past_key_values
            hidden.append(seen.last_hidden_state[0, -1])
            scaled = self.model.get_output_embeddings()(hidden[-1]) / temperature
            tokens.append(int((scaled + make_gumbel_noise(seed, len(tokens), len(scaled))).argmax()))
            logprobs.append(float(scaled.log_softmax(0)[tokens[-1]]))
            ids = torch.tensor([[tokens[-1]]])
        return {
            **named,
            "tokens": struct.pack(f"<{len(tokens)}I", *tokens),
            "logprobs": struct.pack(f"<{len(tokens)}f", *logprobs),
            "spans": [[lease["version"], 0, len(tokens)]],
            "finish": "stop" if tokens[-1] in self.ends else "length",
            "commitments": b"".join(compute_commitment(hidden[at : at + CHUNK]) for at in range(0, len(hidden), CHUNK)),
        }

    def _send_heartbeats(self) -> None:
        while not self.is_finished.wait(BEAT_SECONDS):
            running = [[group, 0] for group in list(self.leases)]
            try:
                reply = self.coordinator.call("/beat", worker=self.name, loaded=self.loaded, running=running)
            except (NotJoinedError, RefusedError):  # the other thread's next call raises the same error
                continue
            for group, _ in reply.get("drop", []):
                self.leases.pop(group, None)
            for (group, _), verdict in reply.get("verdicts", []):
                print(f"lease {group}: {verdict['outcome']} {verdict.get('reason', '')}", flush=True)
            if reply.get("over"):
                self.is_finished.set()


def main(invite: str, key: Path, model: str = "") -> None:
    """Run a node until the run ends. Raises RefusedError."""
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(Ed25519PrivateKey.generate().private_bytes_raw().hex())
    node = Node(Coordinator(invite, Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key.read_text()))), model)
    try:
        node.run()
    except KeyboardInterrupt:
        node.coordinator.call("/leave", worker=node.name)
    print("the run is over" if node.is_finished.is_set() else "has left", flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
        status = 0
    except RefusedError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        status = 1
    os._exit(status)  # PyTorch may abort if the heartbeats' thread runs while Python shuts down
