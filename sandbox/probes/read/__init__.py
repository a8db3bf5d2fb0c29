"""Answers that look for the expected output; it is a fresh nonce, so that acceptance proves a leak."""
