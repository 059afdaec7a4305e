"""Trains: the rounds of a run, and what they leave."""
