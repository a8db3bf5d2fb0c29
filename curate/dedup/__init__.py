"""Find rows that occur twice: the same text, and nearly the same words."""
