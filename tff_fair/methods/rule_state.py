"""Reads and replaces the state of a rule inside a learning process's state.

Some methods need values that clients do not report. The caller of the process
measures them, and puts them into the state between two rounds.
"""

import collections
from collections.abc import Mapping
from typing import Any


def get(state: Any) -> Mapping[str, Any]:
  """Returns the parts of a rule's state, by name, from a process's state."""
  aggregator: Mapping[str, Any] = state.aggregator
  # If the sum has a state, too, the rule's state is under "rule".
  return aggregator.get("rule", aggregator)


def with_values(state: Any, **parts: Any) -> Any:
  """Returns a process's state with `parts` of the rule's state replaced."""
  moved = collections.OrderedDict(get(state), **parts)
  if "rule" in state.aggregator:
    moved = collections.OrderedDict(state.aggregator, rule=moved)
  return state._replace(aggregator=moved)
