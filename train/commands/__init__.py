"""The commands that sample models and train them; one file each."""
