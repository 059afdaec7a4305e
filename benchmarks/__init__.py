"""Speed and memory, as ratios of things measured in one run."""
