"""Readers of published files; they return arrays, users or paths."""
