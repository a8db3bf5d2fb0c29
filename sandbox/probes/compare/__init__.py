"""Outputs that differ from the expected output in ways that a comparison may miss."""
