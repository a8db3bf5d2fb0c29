"""One file, one question: why would we drop this? None keeps; a short fixed word drops, and is counted."""
