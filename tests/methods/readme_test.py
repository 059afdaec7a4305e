"""README's table of methods says what the registry says."""

import re

from tests import source_tree
from tff_fair import methods, typed_values

# README's letter for the ways to sum that a method allows, the default first.
SUMS = {
  ("streaming", "two_phase", "stacked", "secure"): "S",
  ("streaming", "two_phase", "stacked"): "P",
  ("two_phase", "stacked"): "C",
  ("stacked",): "G",
}


def table() -> dict[str, tuple[str, str]]:
  """Returns the hyperparameters and the sums of each method in README."""
  text = (source_tree.ROOT / "README.md").read_text()
  rows = re.search(r"<!-- methods -->\n(.*?)<!-- /methods -->", text, re.S)
  assert rows is not None
  found: dict[str, tuple[str, str]] = {}
  for line in rows[1].splitlines()[2:]:
    names, _, hparams, sums = (cell.strip() for cell in line.split("|")[1:-1])
    letters = sums.split(", ")
    each = re.findall(r"`(\w+)`", names)
    assert len(letters) in (1, len(each)), line
    for place, name in enumerate(each):
      assert name not in found, name
      found[name] = (hparams, letters[min(place, len(letters) - 1)])
  return found


def test_every_method_is_there_once():
  assert set(table()) == set(methods.names())


def test_hyperparameters_and_defaults_are_those_of_the_registry():
  for name, (hparams, _) in table().items():
    said = re.findall(r"`(\w+)` ([^,]+)", hparams)
    declared = methods.hyperparameters(name)
    assert [n for n, _ in said] == list(declared), name
    for n, value in said:
      default = declared[n].default
      # None stands for a value that others imply, such as 1/η.
      if default is not None:
        assert value == typed_values.text(default), (name, n)


def test_sums_are_those_of_the_registry():
  for name, (_, sums) in table().items():
    assert sums == SUMS[methods.get(name).aggregations], name
