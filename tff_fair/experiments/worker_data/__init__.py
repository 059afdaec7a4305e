"""Clients' data in files that lie at the workers: written, read and checked."""
