"""Encoding of requests to a worker, and of its responses.

Requests are pickles, since a worker trusts its caller. Responses are not, since a hostile program might control its
worker. A response consists of numbers in a fixed layout, and strings with their lengths. The caller decodes it as the
expected type; malformed bytes raise ValueError.

    kind, size of the numbers, number of strings | size of each string | numbers | strings
"""

import pickle
import struct
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from sandbox import errors
from sandbox.jail.worker_config import WorkerConfig
from sandbox.judge import CaseJudgement, Judgement, Verdict
from sandbox.program import Outcome, Program, RunResult
from sandbox.request import JudgeRequest, Request, Response
from sandbox.suite import Suite

_KINDS = ("layers", "error", "RunResult", "Judgement")
_LAYERS, _ERROR, _RUN_RESULT, _JUDGEMENT = range(len(_KINDS))
_MAX_ERROR_CHARS = 10_000
_MAX_CACHED_BYTES = 8 << 20  # total size of cached suites
_HEAD_STRUCT = struct.Struct("<BII")
_RUN_STRUCT = struct.Struct("<Bi3d?")  # outcome, exit code, CPU seconds, wall seconds, memory in MB, has_returned
_JUDGEMENT_STRUCT = struct.Struct("<BI")  # verdict, number of cases in the suite
_CASE_STRUCT = struct.Struct("<B4d")  # verdict, CPU seconds, wall seconds, memory in MB, partial credit
_VERDICTS, _OUTCOMES = tuple(Verdict), tuple(Outcome)
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        errors.BackendUnavailable,
        errors.CannotIsolate,
        errors.ExecutionLost,
        errors.KilledExternally,
        errors.RefereeError,
        errors.SandboxError,
        KeyError,
        TypeError,
        ValueError,
    )
}


class _EncodedSuites:
    """A cache of pickled suites, since many programs share a suite. Thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Suite, bytes]] = {}  # by id(suite), unique while the entry references the suite
        self._n_bytes = 0

    def get(self, suite: Suite) -> bytes:
        if entry := self._entries.get(id(suite)):
            return entry[1]
        encoded = pickle.dumps(suite, protocol=5)
        # Without a lock, which a fork could copy in locked state; a race only pickles a suite twice.
        if self._n_bytes + len(encoded) > _MAX_CACHED_BYTES:
            self._entries, self._n_bytes = {}, 0
        if len(encoded) <= _MAX_CACHED_BYTES:
            self._entries[id(suite)] = suite, encoded
            self._n_bytes += len(encoded)
        return encoded


_suites = _EncodedSuites()


def encode_request(request: Request[Any] | WorkerConfig) -> bytes:
    """Encode a request, or the configuration."""
    if isinstance(request, JudgeRequest):
        program, suite = request.program, _suites.get(request.suite)
        fields = (program.source, program.language, suite, request.run_all, request.keep_outputs)
        return pickle.dumps(fields, protocol=5)
    return pickle.dumps(request, protocol=5)


def decode_request(data: bytes) -> Any:
    """Decode a request, or the configuration."""
    match pickle.loads(data):
        case str(source), language, suite, run_all, keep_outputs:
            return JudgeRequest(Program(source, language), pickle.loads(suite), run_all, keep_outputs)
        case request:
            return request


def encode_response(response: RunResult | Judgement | dict[str, str] | Exception) -> bytes:
    """Encode a response, the isolation layers, or an error."""
    match response:
        case Judgement(verdict, cases, n_cases, outputs):
            numbers = [
                _CASE_STRUCT.pack(
                    _VERDICTS.index(case.verdict), case.cpu_seconds, case.wall_seconds, case.memory_mb, case.partial
                )
                for case in cases
            ]
            head = _JUDGEMENT_STRUCT.pack(_VERDICTS.index(verdict), n_cases)
            texts = [*(case.detail for case in cases), *outputs]
            return _pack(_JUDGEMENT, b"".join([head, *numbers]), [encode_text(text) for text in texts])
        case RunResult(outcome, code, stdout, stderr, cpu_seconds, wall_seconds, memory_mb, returned, files):
            has_returned = returned is not None
            run = _RUN_STRUCT.pack(_OUTCOMES.index(outcome), code, cpu_seconds, wall_seconds, memory_mb, has_returned)
            flat = [part for name, content in files.items() for part in (encode_text(name), content)]
            return _pack(_RUN_RESULT, run, [stdout, stderr, returned or b"", *flat])
        case Exception():
            kind = next(base.__name__ for base in type(response).__mro__ if base.__name__ in _ERRORS)
            return _pack(_ERROR, b"", [kind.encode(), encode_text(str(response)[:_MAX_ERROR_CHARS])])
    return _pack(_LAYERS, b"", [encode_text(text) for layer in response.items() for text in layer])


def decode_response(kind: type[Response], data: bytes) -> Response | Exception:
    """Decode a response of this type, or an error. Raises ValueError."""
    decode: Callable[..., Any] = _decode_judgement if kind is Judgement else _decode_run_result
    response: Response | Exception = _decode(_KINDS.index(kind.__name__), decode, data)
    return response


def decode_layers(data: bytes) -> dict[str, str] | Exception:
    """Decode the isolation layers, or an error. Raises ValueError."""
    layers: dict[str, str] | Exception = _decode(_LAYERS, _decode_layers, data)
    return layers


def _pack(kind: int, numbers: bytes, strings: Sequence[bytes]) -> bytes:
    lengths = struct.pack(f"<{len(strings)}Q", *map(len, strings))
    return b"".join([_HEAD_STRUCT.pack(kind, len(numbers), len(strings)), lengths, numbers, *strings])


def _decode(expected: int, decode: Callable[[bytes, list[bytes]], Any], data: bytes) -> Any:
    try:
        kind, n_numbers, n_strings = _HEAD_STRUCT.unpack_from(data)
        lengths = struct.unpack_from(f"<{n_strings}Q", data, _HEAD_STRUCT.size)
        start = _HEAD_STRUCT.size + 8 * n_strings
        end = start + n_numbers
        numbers, strings = data[start:end], []
        for length in lengths:
            strings.append(data[end : end + length])
            end += length
        if end != len(data):
            raise ValueError(f"it has {len(data)} bytes, but its numbers and strings end at {end}")
        if kind == _ERROR:
            name, message = strings
            return _ERRORS[name.decode()](_to_text(message))
        if kind != expected:
            raise ValueError(f"expected {_KINDS[expected]}, not {_KINDS[kind]!r}")
        return decode(numbers, strings)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError(repr(error)) from None


def _decode_judgement(numbers: bytes, strings: list[bytes]) -> Judgement:
    verdict, n_cases = _JUDGEMENT_STRUCT.unpack_from(numbers)
    rows = list(_CASE_STRUCT.iter_unpack(numbers[_JUDGEMENT_STRUCT.size :]))
    n_run, texts = len(rows), [_to_text(string) if string else "" for string in strings]
    if not 1 <= n_run <= n_cases or len(texts) not in (n_run, 2 * n_run):
        raise ValueError(f"it has results of {n_run} of {n_cases} cases, and {len(texts)} texts")
    cases = []
    for (index, cpu_seconds, wall_seconds, memory_mb, partial), detail in zip(rows, texts, strict=False):
        if not isfinite(cpu_seconds + wall_seconds + memory_mb + partial):
            raise ValueError("a number is not finite")
        cases.append(CaseJudgement(_VERDICTS[index], cpu_seconds, wall_seconds, memory_mb, detail, partial))
    return Judgement(_VERDICTS[verdict], tuple(cases), n_cases, tuple(texts[n_run:]))


def _decode_run_result(numbers: bytes, strings: list[bytes]) -> RunResult:
    outcome, exit_code, cpu_seconds, wall_seconds, memory_mb, has_returned = _RUN_STRUCT.unpack(numbers)
    stdout, stderr, returned, *flat = strings
    if not isfinite(cpu_seconds + wall_seconds + memory_mb) or (returned and not has_returned):
        raise ValueError("a number is not finite, or has_returned contradicts the value")
    files = {_to_text(name): content for name, content in zip(flat[::2], flat[1::2], strict=True)}
    return RunResult(
        _OUTCOMES[outcome], exit_code, stdout, stderr, cpu_seconds, wall_seconds, memory_mb,
        returned if has_returned else None, files,
    )  # fmt: skip


def _decode_layers(numbers: bytes, strings: list[bytes]) -> dict[str, str]:
    texts = [_to_text(string) for string in strings]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def encode_text(text: str) -> bytes:
    """Encode text as UTF-8, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
