"""What a completion of a model is worth. Rewards know the sandbox, and nothing of curation or training."""
