"""Submissions whose termination a judge may skip, or count as unknown or as a success."""
