"""The table of methods agrees with the registry."""

import re
from typing import NamedTuple

from tests import source_tree
from tff_fair import aggregators, declared, methods

# The table's words for the aggregations of a method, the default first.
SUMS = {
  ("streaming", "two_phase", "stacked", "secure"): "any",
  ("streaming", "two_phase", "stacked"): "not secure",
  ("two_phase", "stacked"): "two-phase, stacked",
  ("two_phase", "stacked", "secure"): "two-phase, stacked, secure",
  ("stacked",): "stacked",
}


class Row(NamedTuple):
  """The facts about a method in the table."""

  hparams: str
  sums: str
  factory: str


def table() -> dict[str, Row]:
  """Returns the rows of the table by method."""
  text = (source_tree.ROOT / "docs" / "methods.md").read_text()
  rows = re.search(r"<!-- methods -->\n(.*?)<!-- /methods -->", text, re.S)
  assert rows is not None
  found: dict[str, Row] = {}
  for line in rows[1].splitlines()[2:]:
    names, _, *cells = (cell.strip() for cell in line.split("|")[1:-1])
    for name in re.findall(r"`(\w+)`", names):
      assert name not in found, name
      found[name] = Row(*cells)
  return found


def test_every_method_is_there_once():
  assert set(table()) == set(methods.names())


def test_hyperparameters_and_defaults_are_those_of_the_registry():
  for name, row in table().items():
    said = re.findall(r"`(\w+)` ([^,]+)", row.hparams)
    fields = methods.hyperparameters(name)
    assert [n for n, _ in said] == list(fields), name
    for n, value in said:
      default = fields[n].default
      # The default None stands for a value computed from others, such as 1/η.
      if default is not None:
        assert value == declared.as_text(default), (name, n)


def test_sums_are_those_of_the_registry():
  for name, row in table().items():
    assert row.sums == SUMS[methods.get(name).aggregations], name


def test_factories_are_those_of_the_registry():
  for name, row in table().items():
    assert (row.factory == "yes") == bool(methods.METHODS[name].factory), name
  factories = [m.factory for m in methods.METHODS.values() if m.factory]
  assert set(factories) <= set(aggregators.__all__)
  text = (source_tree.ROOT / "docs" / "methods.md").read_text()
  assert f" {len(factories)} methods" in text
