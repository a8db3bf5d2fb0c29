"""What became of a lease: the verdict, and the short word for its reason."""

from typing import Literal

from msgspec import Struct

# "soft": honest nodes can fail like this, too; "hard": only cheats do; "unknown": the fault is on the verifier's side.
Outcome = Literal["accepted", "soft", "hard", "unknown"]

# Nodes are told the word, never how far they were from a bar. From cheap checks to dear ones:
Reason = Literal[
    "",  # accepted
    "expired",  # nothing came before the lease ran out
    "late",  # it came after its weights were given up
    "freed",  # its node left, was suspended, or never heard of the lease
    "different",  # a second file for the same lease
    "size",  # of the file
    "digest",  # the file is not what was announced
    "file",  # it does not hold a completion for each seed of the lease
    "version",  # sampled with another version than that of the lease
    "tokens",  # an id that the vocabulary does not have
    "length",  # too many tokens, or none
    "logprobs",  # log-probabilities that cannot be any
    "copies",  # two answers that are equal beyond the first tokens
    "malformed",  # commitments
    "termination",  # it ends without an end
    "commitments",  # hidden states are not those of the model
    "replay",  # tokens are not those that the seeds give
    "probabilities",  # log-probabilities are not those of the model
    "unlikely",  # tokens are not distributed as the model draws them
    "banned",  # the node was, for another lease or by the operator
    "crashed",  # the verifier
    "no weights",  # the verifier does not have the version any more
]


class LeaseVerdict(Struct, frozen=True):
    """What became of a lease."""

    outcome: Outcome
    reason: Reason = ""


ACCEPTED = LeaseVerdict("accepted")
