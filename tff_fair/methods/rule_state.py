"""The state of a method's rule within that of its process.

A caller may measure for a method what no client reports, and gives it to the
state between two rounds.
"""

import collections
from collections.abc import Mapping
from typing import Any


def of(state: Any) -> Mapping[str, Any]:
  """Returns the rule's state, which has parts by name, from a process's."""
  aggregator: Mapping[str, Any] = state.aggregator
  return aggregator.get("rule", aggregator)  # Some sums have a state, too.


def replaced(state: Any, **parts: Any) -> Any:
  """Returns the state of a process with other parts of the rule's state."""
  moved = collections.OrderedDict(of(state), **parts)
  if "rule" in state.aggregator:
    moved = collections.OrderedDict(state.aggregator, rule=moved)
  return state._replace(aggregator=moved)
