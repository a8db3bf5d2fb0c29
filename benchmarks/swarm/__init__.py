"""What the parts of a swarm cost, and how long they take."""
