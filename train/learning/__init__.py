"""From scored batches to better weights: the objective, the model and the optimizer's steps."""
