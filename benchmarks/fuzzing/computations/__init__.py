"""Random federated computations, under TFF's own executors and beside them."""

from benchmarks.fuzzing.computations.drawing import cases

__all__ = ["cases"]
