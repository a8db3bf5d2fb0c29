"""Submissions that forge their verdict."""
