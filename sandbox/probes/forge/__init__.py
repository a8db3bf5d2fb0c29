"""Answers that write their own verdict."""
