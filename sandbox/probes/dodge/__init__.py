"""Submissions that fail in ways that a judge may ignore, or count as unknown or as a success."""
