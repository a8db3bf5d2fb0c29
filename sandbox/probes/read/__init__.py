"""Submissions that search for the expected output, a fresh nonce, so that acceptance proves a leak."""
