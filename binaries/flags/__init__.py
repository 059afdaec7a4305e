"""Flags of the programs."""
