"""Wrong answers that try nothing else."""
