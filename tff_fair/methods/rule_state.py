"""Reads and replaces the state of a rule inside a learning process's state.

For some methods, a caller measures values that clients do not report, and puts
them into the state between two rounds.
"""

import collections
from collections.abc import Mapping
from typing import Any


def get(state: Any) -> Mapping[str, Any]:
  """Returns the parts of the rule's state, by name, from a process's state."""
  aggregator: Mapping[str, Any] = state.aggregator
  return aggregator.get("rule", aggregator)  # Some sums have a state, too.


def with_values(state: Any, **parts: Any) -> Any:
  """Returns a process's state with replaced parts of the rule's state."""
  moved = collections.OrderedDict(get(state), **parts)
  if "rule" in state.aggregator:
    moved = collections.OrderedDict(state.aggregator, rule=moved)
  return state._replace(aggregator=moved)
