"""Two ways to compute a call: as one graph, and step by step."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from tff_fair.runtime.one_graph import whole_graph


@contextlib.contextmanager
def step_by_step() -> Iterator[None]:
  """Computes each client in a call of its own."""
  with mock.patch.object(whole_graph, "try_build", return_value=None):
    yield


@contextlib.contextmanager
def counted(
  module: object = whole_graph, name: str = "try_build"
) -> Iterator[list[bool]]:
  """Records whether each call of a function returned something.

  By default, that is whether each computation was one graph. Yields the list.
  """
  found: list[bool] = []
  function = getattr(module, name)

  def count(*args: Any) -> Any:
    result = function(*args)
    found.append(result is not None)
    return result

  with mock.patch.object(module, name, count):
    yield found


def both(call: Callable[[], Any]) -> tuple[Any, Any]:
  """Returns the results of a call as one graph and in single steps."""
  with counted() as graphs:
    result = call()
  assert any(graphs), "Nothing was one graph."
  with step_by_step():
    return result, call()


def assert_same_bits(first: Any, second: Any) -> None:
  """Fails unless two results are equal bit for bit, in equal structures."""
  tf.nest.assert_same_structure(first, second, check_types=True)
  for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
    assert np.asarray(a).dtype == np.asarray(b).dtype
    assert np.asarray(a).shape == np.asarray(b).shape
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
