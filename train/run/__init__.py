"""What a run leaves on disk: checkpoints, figures, pictures and a model card."""
