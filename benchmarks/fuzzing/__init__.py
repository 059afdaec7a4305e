"""Kinds of hostile input; `benchmarks.fuzz` runs them."""
