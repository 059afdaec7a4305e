"""Benchmarks of speed and memory, as ratios within a run, and of statistics."""
