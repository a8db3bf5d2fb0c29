"""The costs and durations of a swarm's components."""
