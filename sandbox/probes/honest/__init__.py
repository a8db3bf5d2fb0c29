"""Correct solutions in many forms."""
