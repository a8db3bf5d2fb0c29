"""Commitments that an honest node sends for hidden states."""

from train.sampling.commitment import CHUNK_TOKENS, Bfloat16Bits, K, TopValues, commit_top_values, select_top_k_indices

COMMITMENT_BYTES = 2 * (1 + K)  # of each chunk


def commit(hidden_TH: Bfloat16Bits, *, k: int = K) -> bytes:
    """Return the commitments to the k largest values in each 32 tokens."""
    chunks = [hidden_TH[start : start + CHUNK_TOKENS].ravel() for start in range(0, len(hidden_TH), CHUNK_TOKENS)]
    return commit_top_values(
        [TopValues(indices, bits[indices]) for bits in chunks for indices in [select_top_k_indices(bits, k)]]
    )
