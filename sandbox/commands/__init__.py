"""The commands that run and judge programs, and what all commands share; one file each."""
