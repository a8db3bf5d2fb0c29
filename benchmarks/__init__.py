"""Measurements of speed, side by side in one run. The README shows the results; no test checks them, since machines
differ."""
