"""The costs and durations of the parts of a swarm."""
