"""Trains runs round by round, and writes their results."""
