import math

import pandas as pd
import pytest

from tests.experiments import run_folders
from tests.refusals import rejected
from tff_fair.experiments import compare

pytestmark = pytest.mark.pure

# Rounds 1, 2 and 4 have the means 0.2, 0.5 and 0.75.
CURVE = [(0, (0.9, 0.9)), (1, (0.1, 0.3)), (2, (0.4, 0.6)), (4, (0.7, 0.8))]


@pytest.fixture
def folder(tmp_path):
  """Writes runs; 2 seeds of FedAvg, 1 of TERM and none of AFL reach 0.5."""
  for algorithm, seed, curve in (
    ("fedavg", 0, CURVE),
    ("fedavg", 1, [*CURVE[:2], CURVE[3]]),
    ("term", 0, CURVE),
    ("term", 1, CURVE[:2]),
    ("afl", 0, CURVE[:2]),
  ):
    path = run_folders.make(
      tmp_path / f"{algorithm}-{seed}",
      curve,
      algorithm=algorithm,
      seed=seed,
      total_rounds=4,
    )
    rounds = pd.DataFrame({"round": [1, 2, 3, 4]})
    rounds.assign(bytes_down=10, bytes_up=[1, 2, 3, 4]).assign(
      local_operations=1, num_clients=2
    ).to_csv(path / "costs.csv", index=False)
    rounds.assign(**{"client_work/train/num_batches": [5, 6, 7, 8]}).to_csv(
      path / "metrics.csv", index=False
    )
  return tmp_path


def test_costs_are_summed_up_to_the_first_evaluation_that_is_there(folder):
  rows = compare(folder, target=0.5)
  fedavg, term, afl = (rows.loc[name] for name in ("FedAvg", "TERM", "AFL"))
  assert fedavg["reached"] == 2
  # The mean of rounds 2 and 4.
  assert fedavg["rounds_to"] == 3.0
  assert fedavg["rounds_to_std_over_seeds"] == pytest.approx(2**0.5, abs=0.05)
  assert fedavg["bytes_to"] == ((20 + 3) + (40 + 10)) / 2 - 0.5  # Rounded.
  assert fedavg["steps_to"] == pytest.approx((11 + 26) / 2, abs=0.5)
  assert (term["reached"], term["rounds_to"], term["bytes_to"]) == (1, 2, 23)
  assert afl["reached"] == 0
  assert math.isnan(afl["rounds_to"])


def test_another_measure(folder):
  rows = compare(folder / "term-0", target=0.4, target_of="worst_10")
  assert rows["rounds_to"].item() == 2
  rows = compare(folder / "term-0", target=0.06, target_of="std")
  assert rows["rounds_to"].item() == 4


@pytest.mark.parametrize(
  ("arguments", "field"),
  [
    ({"target": 80}, "target"),
    ({"target": -0.1}, "target"),
    ({"target": math.nan}, "target"),
    ({"target": 0.8, "target_of": "meen"}, "target_of"),
    ({"target": 0.8, "target_of": "r2"}, "target_of"),
  ],
)
def test_targets_that_cannot_be_reached_are_refused(folder, arguments, field):
  with rejected(field):
    compare(folder, **arguments)
