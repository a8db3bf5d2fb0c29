"""Answers to some of the tests."""
