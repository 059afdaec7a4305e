"""Reads published data files, as arrays, lists of users or lists of paths."""
