"""Right answers in many shapes."""
