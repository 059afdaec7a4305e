"""Computes all clients of a computation in a single TensorFlow graph."""
