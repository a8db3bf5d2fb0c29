"""Speed, measured side by side in one run and rendered into the README. Never a test: machines differ."""
