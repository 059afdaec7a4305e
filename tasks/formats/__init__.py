"""Readers of files as they are published: each returns arrays or paths."""
