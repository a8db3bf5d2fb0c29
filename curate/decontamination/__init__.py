"""Find rows that hold something of an evaluation set, and take them out."""
