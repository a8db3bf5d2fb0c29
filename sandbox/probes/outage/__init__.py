"""Ordinary submissions, right and wrong, while the judge's backend is down."""
