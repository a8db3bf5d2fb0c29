"""Sampling from a model, and training it. Heavy packages are imported where they are used."""
