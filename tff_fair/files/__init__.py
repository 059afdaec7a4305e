"""Helps to write files as a whole, and to read them with one-line errors."""
