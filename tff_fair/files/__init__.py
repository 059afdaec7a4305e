"""Reads and writes files: atomic writes, and errors of one line."""
