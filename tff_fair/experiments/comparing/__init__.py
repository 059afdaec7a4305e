"""Runs side by side: measures, groups and tables."""
