"""Benchmarks of speed and memory, and of statistical methods."""
