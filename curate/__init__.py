"""Turn raw programming problems into a verified, deduplicated, documented dataset."""
