"""Read what others have written: tables, tests in many dialects, signatures, limits, solutions."""
