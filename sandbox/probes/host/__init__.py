"""Submissions that attack the judge's machine; a nonce in the output proves success."""
