"""Training: the rounds of a run, and their results."""
