"""Answers whose end a judge may count as unknown, skip, or take for success."""
