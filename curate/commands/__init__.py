"""The commands that make datasets and look at them; one file each."""
