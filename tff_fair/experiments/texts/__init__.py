"""Describes the results of runs in sentences and text tables."""
