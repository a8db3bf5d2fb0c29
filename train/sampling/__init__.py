"""Samplers: what asks a model for completions, in this process, in others, or behind HTTP."""
