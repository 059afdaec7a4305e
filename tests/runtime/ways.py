"""Two ways to compute a call: as one graph, and by TFF's own executors."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from tff_fair.runtime.parts import calls


@contextlib.contextmanager
def by_executors() -> Iterator[None]:
  """Computes each client in a call of its own."""
  with mock.patch.object(calls.Calls, "_as_one_graph", return_value=None):
    yield


@contextlib.contextmanager
def counted() -> Iterator[list[bool]]:
  """Yields a list of whether each call was one of a graph."""
  found: list[bool] = []
  as_one_graph = calls.Calls._as_one_graph

  def count(self: calls.Calls, *args: Any) -> Any:
    graph = as_one_graph(self, *args)
    found.append(graph is not None)
    return graph

  with mock.patch.object(calls.Calls, "_as_one_graph", count):
    yield found


def both(call: Callable[[], Any]) -> tuple[Any, Any]:
  """Returns the result of one graph, and that of TFF's executors."""
  with counted() as graphs:
    result = call()
  assert any(graphs), "Nothing was one graph."
  with by_executors():
    return result, call()


def assert_same_bits(first: Any, second: Any) -> None:
  """Fails unless two results are equal bit for bit, in equal structures."""
  tf.nest.assert_same_structure(first, second, check_types=True)
  for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
    assert np.asarray(a).dtype == np.asarray(b).dtype
    assert np.asarray(a).shape == np.asarray(b).shape
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
