"""Plain submissions while the judge's backend is down."""
