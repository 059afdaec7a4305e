"""Tests that facts about tasks are known without data and TensorFlow."""

import json
import pathlib
import subprocess
import sys

import pytest

import tasks
from tests import source_tree
from tests.refusals import rejected

# Modules at the top of the package that are not tasks.
_NO_TASKS = {
  *("__init__", "client_source", "client_weights", "data_error", "digests"),
  "downloads",
  *("from_client_data", "label_noise", "notices", "options", "registry"),
  *("task", "validation"),
}

_PROGRAM = """
import sys
import tasks, tasks.registry
for name in tasks.names():
  defaults = tasks.option_defaults(name)
  tasks.option_fields(name)
  tasks.check_options(name, defaults)
  tasks.parse_options(name, [f"{k}={v}" for k, v in defaults.items()])
heavy = "tensorflow tensorflow_federated tensorflow_datasets pandas sklearn"
print([name for name in [*heavy.split(), "matplotlib"] if name in sys.modules])
"""


def test_knowing_takes_no_tensorflow():
  found = subprocess.run(
    [sys.executable, "-c", _PROGRAM],
    cwd=source_tree.ROOT,
    capture_output=True,
    text=True,
    check=True,
    timeout=60,
  )
  assert found.stdout == "[]\n"


def test_every_task_file_is_registered():
  files = {path.stem for path in (source_tree.ROOT / "tasks").glob("*.py")}
  assert files - _NO_TASKS == set(tasks.names())


@pytest.mark.parametrize("name", tasks.names())
class TestEveryTask:
  def test_every_option_has_a_meaning(self, name):
    fields = tasks.option_fields(name)
    assert tuple(fields) == tasks.option_names(name)
    for field in fields.values():
      assert field.meaning[0].isupper()
      assert field.meaning.endswith(".")
      assert "\n" not in field.meaning

  def test_defaults_are_valid_and_plain(self, name):
    defaults = tasks.option_defaults(name)
    assert tasks.option_names(name) == tuple(defaults)
    assert "num_clients" in defaults
    assert tasks.check_options(name, defaults) == defaults
    assert json.loads(json.dumps(defaults)) == defaults
    texts = [f"{option}={value}" for option, value in defaults.items()]
    assert tasks.parse_options(name, texts) == defaults

  def test_checks_names(self, name):
    valid = ", ".join(tasks.option_names(name))
    for check in (
      lambda: tasks.check_options(name, {"colour": "red"}),
      lambda: tasks.parse_options(name, ["colour=red"]),
      lambda: tasks.load(name, colour="red"),
    ):
      with pytest.raises(ValueError, match=f"'colour'.*{valid}"):
        check()


@pytest.mark.parametrize(
  ("options", "field"),
  [
    ({"num_clients": 899}, "num_clients"),
    ({"num_clients": None}, "num_clients"),
    ({"test_fraction": 0.5, "unused_fraction": 0.5}, "unused_fraction"),
  ],
)
def test_checks_options_together(options, field):
  with rejected(field, value=options[field]):
    tasks.check_options("digits", options)


def test_reads_no_data():
  path = str(pathlib.Path("/nowhere/split.npz"))
  assert tasks.check_options("mnist", {"split_file": path})
