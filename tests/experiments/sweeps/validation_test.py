"""Tests that sweeps that choose between settings set validation data aside."""

import dataclasses

import pytest

from tff_fair.experiments import RunSpec
from tff_fair.experiments.sweeps import (
  plan,
  processes,
  setting_tables,
  study,
  sweep_file,
  validation,
)

FEW = {"task": ["synthetic"], "task_option.num_clients": ["21"]}
MANY = {**FEW, "task_option.num_clients": ["50"]}
RATES = {"client_learning_rate": ["0.1", "0.3"]}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
  monkeypatch.setattr(processes, "call", lambda function, *a: function(*a))


def fractions(grid, fraction=0.2, names=("fedavg", "adafed")):
  """Returns the shares of data that the runs of a sweep set aside."""
  sweep = sweep_file.from_methods(names, "here")
  tables = setting_tables.read_lists("grid", grid)
  sweep = validation.with_fraction(
    dataclasses.replace(sweep, final=tables), fraction, list
  )
  return {run.spec.validation_share for run in plan.expand(sweep)}


@pytest.mark.parametrize(
  ("grid", "expected"),
  [
    ({**FEW, **RATES}, 0.2),
    ({**FEW, "hparam.gamma": ["0.1", "1"]}, 0.2),
    # All runs of a sweep train on the same share.
    ({**RATES, **FEW, "task_option.num_clients": ["60", "21"]}, 0.2),
    # Only clients that are evaluated and not unseen are counted.
    ({**MANY, **RATES, "evaluation_clients": ["30"]}, 0.2),
    ({**MANY, **RATES, "unseen_clients": ["0.2"]}, 0.2),
    ({**MANY, **RATES}, 0.0),
    # Seeds are not settings to choose from.
    ({**FEW, "seed": ["0", "1"]}, 0.0),
    # The user has set the share.
    ({**FEW, **RATES, "validation_fraction": ["0"]}, 0.0),
    ({**FEW, **RATES, "validation_fraction": ["0.3"]}, 0.3),
    ({**MANY, **RATES, "validation_fraction": ["0.3"]}, 0.3),
    # Data that cannot be read; the runs will report the error.
    ({**RATES, "task": ["table"], "task_option.file": ["no.csv"]}, 0.0),
  ],
)
def test_runs_set_data_aside(grid, expected):
  assert fractions(grid) == {expected}


def test_a_search_sets_data_aside():
  sweep = sweep_file.from_methods(["fedavg"], "here")
  tables = setting_tables.merge(
    setting_tables.read_lists("grid", FEW),
    setting_tables.read_ranges("range", {"client_learning_rate": "0.1:1:log"}),
    "grid",
  )
  said = []
  sweep = validation.with_fraction(
    dataclasses.replace(sweep, final=tables), 0.2, said.append
  )
  (one,) = study.make_studies(sweep)
  (run,) = one.runs({"client_learning_rate": "0.5"})
  assert run.spec.validation_fraction == 0.2
  assert "validation_fraction" not in one.space
  (line,) = said
  assert line.startswith("21 clients")


@pytest.mark.long
def test_a_process_that_is_forked_counts_clients(monkeypatch):
  monkeypatch.undo()
  spec = RunSpec(task="synthetic", task_options={"num_clients": 21})
  assert processes.call(validation.few_clients, [spec]) == 21
