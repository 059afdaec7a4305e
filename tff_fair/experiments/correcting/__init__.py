"""Correction of wrong labels before the first round of a run."""
