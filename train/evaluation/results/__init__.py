"""Results of evaluations. Begin with `Result` in result.py, the type and its file; tables.py has all tables."""
