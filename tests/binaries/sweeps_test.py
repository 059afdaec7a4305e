import re

import pytest

from binaries.flags import sweep_flags
from tests.binaries import sweep_arguments
from tff_fair.experiments.sweeps import plan as sweep_plan

FILES = sweep_flags.included_files()
PAPERS = ("adafed", "adafedadam", "fedfv", "fedmgda_plus", "semi_vred")
# Experiments of our own.
OTHERS = ("attacks_and_defences",)


def test_each_paper_with_experiments_has_files():
  kinds = "_(table|figure|emnist|interpol|bias|scaling)"
  names = {re.split(kinds, name)[0] for name in FILES}
  assert names == {*PAPERS, *OTHERS}


@pytest.mark.parametrize("name", FILES)
def test_all_runs_of_an_included_file_are_valid(name):
  with sweep_arguments.given(f"--file={name}"):
    sweep = sweep_flags.sweep()
  planned = sweep_plan.expand(sweep)
  assert sweep.title
  assert {run.method for run in planned} == {m.name for m in sweep.methods}
  assert len({run.spec.seed for run in planned}) >= 3


@pytest.mark.parametrize("name", FILES)
def test_an_included_file_says_what_it_is(name):
  first = (sweep_flags.FILES / f"{name}.toml").read_text().split("\n", 1)[0]
  assert first.startswith("# ")
  assert len(first) <= 80
