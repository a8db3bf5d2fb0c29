"""Wrong programs without any attack."""
