import dataclasses
import re

import pytest

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import sweep_file

WHOLE = """
title = "All there is"
[flags]
task = "digits"
task_option = ["num_clients=20", "model=mlp_64"]
total_rounds = 5
client_learning_rate = 1e-2
[grid]
seed = [0, 1]
hparam.q = [1]
"task_option.test_fraction" = [0.1, 0.5]
[[methods]]
algorithm = "fedavg"
[[methods]]
name = "q-FedAvg"
algorithm = "qfedavg"
hparam.q = [5, 0.1]
hparam.other = true
flags = {loss_at = "after", task_option = ["model=cnn"]}
grid = {client_learning_rate = [0.1, 0.2]}
"""
METHOD = '[[methods]]\nalgorithm = "fedavg"\n'


@pytest.fixture
def read(tmp_path):
  def run(text):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return sweep_file.read(path)

  return run


def values(grid):
  return {name: setting.values for name, setting in grid.items()}


def test_a_file_is_read(read):
  sweep = read(WHOLE)
  assert sweep.title == "All there is"
  assert values(sweep.common) == {
    "task": ["digits"],
    "task_option.num_clients": ["20"],
    "task_option.model": ["mlp_64"],
    "total_rounds": [5],
    "client_learning_rate": [0.01],
    "seed": [0, 1],
    "hparam.q": [1],
    "task_option.test_fraction": [0.1, 0.5],
  }
  assert sweep.varying == {"seed", "hparam.q", "task_option.test_fraction"}
  assert sweep.final == {}
  first, second = sweep.methods
  assert (first.name, first.algorithm, first.grid) == ("fedavg", "fedavg", {})
  assert (second.name, second.algorithm) == ("q-FedAvg", "qfedavg")
  assert values(second.grid) == {
    "hparam.q": [5, 0.1],
    "hparam.other": [True],
    "loss_at": ["after"],
    "task_option.model": ["cnn"],
    "client_learning_rate": [0.1, 0.2],
  }


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "expected one [[methods]] or more"),
    ("x = ", "Invalid value"),
    (f"[flag]\n{METHOD}", "unknown 'flag'; expected title, extends, flags, "),
    (f"title = 5\n{METHOD}", "title must be a text, found 5"),
    ("methods = [5]", "[[methods]] number 1: must be a table, found 5"),
    ("[[methods]]\nname = 'x'", "number 1: algorithm must be a text, found No"),
    (f"{METHOD}hparm.q = 5", "number 1: unknown 'hparm'; expected name, alg"),
    (f"{METHOD}hparam = 5", "number 1 (fedavg): expected hparam.NAME"),
    (f"{METHOD}hparam.q = []", "hparam.q must be a list of values, found []"),
    (f"{METHOD}flags = 5", "number 1 (fedavg): flags: must be a table, found"),
    (
      f"{METHOD}{METHOD}flags = {{rounds = 5}}",
      "number 2 (fedavg): flags: rounds: is not a setting of a run; did you "
      "mean tape_rounds or total_rounds or dropout_rounds?",
    ),
    (f"[flags]\nseed = 1\n[grid]\nseed = [1]\n{METHOD}", "[grid]: seed has a"),
    (f"[flags]\nseed = [1]\n{METHOD}", "[flags]: seed must be one value"),
    (f"[flags]\ntotal_rounds = 0\n{METHOD}", "[flags]: total_rounds=0: "),
    (f"[flags]\noutput_dir = 'x'\n{METHOD}", "the sweep gives each run its o"),
    (f"[range]\nalgorithm = '1:2'\n{METHOD}", "methods are named by [[metho"),
    (f"[flags]\ntask_option = ['x']\n{METHOD}", "task_option=x: expected NAM"),
    (
      f"[flags]\ntask_option = ['x=1', 'x=2']\n{METHOD}",
      "[flags]: task_option=x='2': is given twice",
    ),
    (f"[grid]\nseed = 1\n{METHOD}", "[grid]: seed must be a list of values"),
    (f"[grid]\nseed = [1, 1]\n{METHOD}", "[grid]: seed has a value twice"),
    (
      f"[grid]\nalgorithm = ['x']\n{METHOD}",
      "methods are named by [[methods]]",
    ),
  ],
)
def test_a_mistake_is_one_line_that_names_the_place(read, text, message):
  place = r"^\S*/sweep\.toml: "
  with pytest.raises(RunError, match=f"{place}.*{re.escape(message)}"):
    read(text)


class TestExtends:
  """Tests of a file that extends another one, and replaces its settings."""

  @pytest.fixture
  def read(self, tmp_path):
    """Returns a function that writes files, and reads the last one.

    Files whose names begin with "included" go into a folder of that name.
    """
    included = tmp_path / "included"
    included.mkdir()

    def write_and_read(**texts):
      for name, text in texts.items():
        folder = included if name.startswith("included") else tmp_path
        (folder / f"{name}.toml").write_text(text)
      return sweep_file.read(tmp_path / f"{name}.toml", included=included)

    return write_and_read

  def test_what_it_says_replaces_what_the_other_says(self, read):
    base = read(base=WHOLE)
    child = read(
      child="""
title = "Another one"
extends = "base"
[flags]
total_rounds = 7
task_option = ["model=cnn"]
dropout = 0.5
""",
    )
    assert child.title == "Another one"
    assert child.methods == tuple(
      dataclasses.replace(m, place=m2.place)
      for m, m2 in zip(base.methods, child.methods, strict=True)
    )
    assert values(child.common) == {
      **values(base.common),
      "total_rounds": [7],
      "task_option.model": ["cnn"],
      "dropout": [0.5],
    }
    # The order must be the same, since names of folders depend on it.
    assert list(child.common) == [*base.common, "dropout"]
    assert child.varying == base.varying

  def test_its_methods_replace_the_others(self, read):
    child = read(base=WHOLE, child=f'extends = "base"\n{METHOD}')
    (method,) = child.methods
    assert (method.name, method.grid) == ("fedavg", {})

  def test_a_value_may_become_a_grid_and_a_grid_a_value(self, read):
    child = read(
      base=WHOLE,
      child='extends = "base"\n[flags]\nseed = 3\n[grid]\ntotal_rounds = [5]',
    )
    assert child.common["seed"].values == [3]
    assert child.common["total_rounds"].values == [5]
    others = {"hparam.q", "task_option.test_fraction"}
    assert child.varying == {"total_rounds", *others}

  def test_files_extend_each_other_in_a_chain(self, read):
    sweep = read(
      a=WHOLE,
      b='title = "B"\nextends = "a"\n[flags]\nbatch_size = 1\ndropout = 0.1',
      c='extends = "b"\n[flags]\nbatch_size = 2',
    )
    assert sweep.title == "B"
    assert sweep.common["batch_size"].values == [2]
    assert sweep.common["dropout"].values == [0.1]
    assert len(sweep.methods) == 2

  def test_of_several_others_the_later_lies_over_the_earlier(self, read):
    sweep = read(
      setting=f'title = "S"\n[flags]\nbatch_size = 1\nseed = 4\n{METHOD}',
      methods=f"[grid]\nseed = [5, 6]\n{METHOD.replace('fedavg', 'term')}",
      child='extends = ["setting", "methods"]\n[flags]\nbatch_size = 2',
    )
    assert sweep.title == "S"
    assert values(sweep.common) == {"batch_size": [2], "seed": [5, 6]}
    assert sweep.varying == {"seed"}
    assert [method.name for method in sweep.methods] == ["term"]

  @pytest.mark.parametrize(
    "name",
    ["sibling", "sibling.toml", "below/other.toml", "below/other", "included1"],
  )
  def test_the_other_is_a_path_or_an_included_file(self, read, tmp_path, name):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "other.toml").write_text(METHOD)
    child = f'extends = "{name}"\ntitle = "x"'
    found = read(included1=METHOD, sibling=METHOD, child=child)
    assert found.methods[0].name == "fedavg"

  def test_a_sibling_comes_before_an_included_file(self, read, tmp_path):
    sibling = METHOD.replace("fedavg", "term")
    (tmp_path / "included1.toml").write_text(sibling)
    found = read(included1=METHOD, child='extends = "included1"')
    assert found.methods[0].name == "term"

  @pytest.mark.parametrize(
    ("texts", "message"),
    [
      (
        {"child": 'extends = "nowhere"'},
        "child.toml: extends 'nowhere', but there is no such file; give",
      ),
      ({"child": 'extends = "a\\u0000b"'}, "b', but there is no such file"),
      ({"child": "extends = 5"}, "extends must name a file, found 5"),
      (
        {"child": 'extends = "child"'},
        "child.toml: extends child: the files extend each other in a circle",
      ),
      (
        {"a": 'extends = "b"', "b": 'extends = "a"', "child": 'extends = "a"'},
        "extends a: extends b: extends a: the files extend each other in a ci",
      ),
      (
        {"a": "[flags]\nbatch_size = 0", "child": 'extends = "a"'},
        "child.toml: extends a: [flags]: batch_size=0: expected",
      ),
    ],
  )
  def test_a_mistake_is_one_line(self, read, texts, message):
    with pytest.raises(RunError, match=f"^.*{re.escape(message)}.*\\Z"):
      read(**texts)
