"""Benchmarks of speed and learning. docs/numbers.md shows their results."""
