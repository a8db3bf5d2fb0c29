"""From questions to scored batches: what is asked, scored, collected and overlapped with training."""
