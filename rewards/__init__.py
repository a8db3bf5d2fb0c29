"""What an answer of a model is worth: its program, executed on a problem's tests."""
