"""Computations over clients as a single TensorFlow graph."""
