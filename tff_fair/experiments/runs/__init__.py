"""Runs, their folders, and the files in them."""
