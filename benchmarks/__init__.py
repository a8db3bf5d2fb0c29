"""Measurements of speed and of learning, with their results in docs/numbers.md. No test compares machines."""
