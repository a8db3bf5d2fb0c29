"""Wrong programs without attacks."""
