"""Computations over clients as a single graph of TensorFlow."""
