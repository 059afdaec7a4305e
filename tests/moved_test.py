"""Old names of modules work, with one line of notice."""

import importlib

import pytest

import tasks
from tff_fair import aggregators, algorithms, moved, rules

OLD = {
  "tff_fair.rules.vred": "tff_fair.methods.vred",
  "tff_fair.rules.fedmgda_plus": "tff_fair.methods.fedmgda_plus",
  **moved.MODULES,
}


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_gives_the_module_and_a_notice(old):
  package, _, name = old.rpartition(".")
  with pytest.warns(DeprecationWarning, match=f"{old} is now {OLD[old]}"):
    module = getattr(importlib.import_module(package), name)
  assert module is importlib.import_module(OLD[old])


@pytest.mark.parametrize("package", [aggregators, algorithms, rules, tasks])
def test_other_names_are_unknown(package):
  with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
    _ = package.nothing
