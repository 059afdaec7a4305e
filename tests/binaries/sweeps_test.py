import functools
import math
import re

import pytest

from binaries.flags import sweep_flags
from tests.binaries import in_process
from tff_fair.experiments.sweeps import plan as sweep_plan

FILES = sweep_flags.included_files()
PAPERS = ("adafed", "adafedadam", "fedfv", "fedmgda_plus", "semi_vred")
# Names of sweeps that are not from a paper.
OTHERS = (
  "attacks_and_defences",
  "first_look",
  *(f"since_2021_{task}" for task in ("digits", "fashion_mnist", "synthetic")),
)


@functools.cache
def planned_runs(name):
  """Returns an included sweep and its runs."""
  with in_process.given(f"--file={name}", namespace=sweep_flags.NAMESPACE):
    sweep = sweep_flags.sweep()
  return sweep, sweep_plan.expand(sweep)


def test_each_paper_with_experiments_has_files():
  kinds = (
    "_(table|figure|grid|loss_point|emnist|interpol|improved|fairness|bias"
    "|scaling)"
  )
  names = {re.split(kinds, name)[0] for name in FILES}
  assert names == {*PAPERS, *OTHERS}


@pytest.mark.parametrize("name", FILES)
def test_an_included_file_says_what_it_is_and_all_its_runs_are_valid(name):
  sweep, planned = planned_runs(name)
  assert sweep.title
  assert {run.method for run in planned} == {m.name for m in sweep.methods}
  assert len({run.spec.seeds for run in planned}) >= 3
  first = (sweep_flags.FILES / f"{name}.toml").read_text().split("\n", 1)[0]
  assert first.startswith("# ")
  assert len(first) <= 80


# Average number of training examples per client, for each sweep file of a paper
# that normalizes updates but does not print its server learning rate.
EXAMPLES = {
  "adafed_figure_2_cifar10": 400,
  "adafed_figure_2_cifar100": 4000,
  "adafed_table_1_setup_1": 400,
  "adafed_table_1_setup_2": 4000,
  "adafed_table_2_setup_1": 4000,
  "adafed_table_2_setup_2": 800,
  "adafed_table_3_original": 197,
  "adafed_table_3_skewed": 700,
  "adafed_table_4_setup_1": 4000,
  "adafed_table_4_setup_1_slow_decay": 4000,
  "adafed_table_4_setup_2": 8000,
  "adafed_table_7": 5600,
  "adafed_table_9": 5000,
  "fedfv_figure_2_cifar10": 400,
  "fedfv_figure_2_mnist": 240,
  "fedfv_table_2": 400,
  "fedfv_table_2_logits": 400,
  "fedfv_table_2_small": 100,
  "fedfv_table_3": 5600,
  "fedfv_table_3_keras_weights": 5600,
  "fedfv_table_3_logits": 5600,
  "fedfv_table_3_mlp": 5600,
  "fedmgda_plus_bias_attack": 16281,
  "fedmgda_plus_emnist": 197,
}
# The rule below does not apply to these files, because Table 8 of the slides
# prints rates for their setting: 1.0 and 1.5.
PRINTED = tuple(
  f"fedmgda_plus_{name}"
  for name in ("table_8", "scaling", "interpolation", "improved", "fairness")
)
UNIT_UPDATES = ("fedmgda_plus", "mgda_prox", "fedavg_n")


def test_the_step_of_unit_updates_follows_one_rule():
  for name in FILES:
    if name.startswith((*PRINTED, *OTHERS)) or "_grid" in name:
      continue
    for spec in (run.spec for run in planned_runs(name)[1]):
      if spec.algorithm not in UNIT_UPDATES:
        continue
      steps = math.ceil(EXAMPLES[name] / spec.batch_size) * spec.local_epochs
      length = spec.client_learning_rate * steps
      nearest = min((0.1, 1.0), key=lambda step: abs(math.log(step / length)))
      assert (spec.server_learning_rate or 1.0) == nearest, name


def test_each_cifar_file_of_adafed_says_how_it_reads_its_counts():
  of_cifar = [
    name
    for name in FILES
    if name.startswith("adafed_")
    and not name.endswith("_small")
    and planned_runs(name)[1][0].spec.task in ("cifar10", "cifar100")
  ]
  assert len(of_cifar) >= 18
  for name in of_cifar:
    text = (sweep_flags.FILES / f"{name}.toml").read_text().replace("\n# ", " ")
    options = planned_runs(name)[1][0].spec.task_options
    assert "test images are read as a cut of 80/20" in text, name
    assert options["test_data"] == "local", name
    assert options["test_fraction"] == 0.2, name
