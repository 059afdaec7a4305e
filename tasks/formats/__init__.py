"""Readers of files as published: each returns arrays, users or paths."""
