"""Reads and checks runs, and writes the files in their folders."""
