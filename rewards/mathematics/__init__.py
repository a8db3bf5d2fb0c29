"""Whether a mathematical answer is right, decided by math-verify in processes of its own."""
