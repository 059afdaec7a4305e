"""Reads and writes files: atomic writes, and one-line error messages."""
