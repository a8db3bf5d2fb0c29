"""Plain answers while the judge's backend is away."""
