"""How large a rollout file may be."""

from train.asynchronous.messages import Lease

# What honest files have in plain form: 4 bytes a token of a prompt, 16 a token of an answer, and the last chunk of
# commitments, which may be for one token.
_FIXED_BYTES, _BYTES_OF_AN_ANSWER, _BYTES_OF_A_TOKEN = 64 * 2**10, 512, 24


def max_file_bytes(lease: Lease) -> int:
    """Return the largest size of a file that answers this lease, compressed or not."""
    tokens = len(lease.prompt) + lease.sampling_params.max_tokens
    return _FIXED_BYTES + len(lease.seeds) * (_BYTES_OF_AN_ANSWER + _BYTES_OF_A_TOKEN * tokens)
