"""Computes numbers about finished runs: measures, differences, ceilings."""
