"""Answers that reach for the machine; success proves itself by a nonce."""
