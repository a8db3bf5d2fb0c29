"""How often a model solves the problems of a set, and how sure that is."""
