"""How often a model solves each problem, and datasets of the problems in a band."""
