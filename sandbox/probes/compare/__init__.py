"""Answers that differ from the expected one where a comparison may not look."""
