"""Private sums: how much one client can change them, and their noise."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators, privacy
from tff_fair.methods import fedavg

CLIP = 0.1
SIZE = 4
NAMES = ("FedAvgFactory", "FedAvgNFactory")
every_factory = pytest.mark.parametrize("name", NAMES)


def create(name, noise=0.0, *, update_type=rounds.UPDATE_TYPE, **options):
  factory = getattr(aggregators, name)(
    dp=privacy.dp(noise, SIZE, CLIP), client_weighting="uniform", **options
  )
  return rounds.create(factory, update_type)


def hostile_clients():
  update = np.arange(9.0) - 3
  return [
    *rounds.random_clients(2, seed=7),
    rounds.Client(update * 1e30, loss=1e30, num_examples=10**9),
    rounds.Client(-update * 4e37, loss=-1e30),
    rounds.Client(update * 1e-40),
    rounds.Client(np.full(9, np.nan)),
    rounds.Client(np.full(9, np.inf), loss=np.inf),
    rounds.Client(np.zeros(9)),
    rounds.Client(update, num_examples=0),
    rounds.Client(update, loss=np.nan),
  ]


def total(process, clients):
  return SIZE * rounds.flat(rounds.run(process, clients).result).astype(float)


@every_factory
def test_one_client_changes_the_sum_by_at_most_the_clip(name):
  process = create(name)
  changes = []
  for m in (0, 4):
    cohort = rounds.random_clients(m, seed=m) if m else []
    before = total(process, cohort)
    for client in hostile_clients():
      changes.append(np.linalg.norm(total(process, [*cohort, client]) - before))
  assert max(changes) <= CLIP * (1 + 1e-5)
  assert max(changes) >= CLIP * (1 - 1e-5)  # The bound is tight.


@every_factory
def test_the_sum_is_of_clipped_updates_over_a_fixed_size(name):
  clients = rounds.random_clients(3)
  scaled = []
  for client in clients:
    update = client.as_reference().update
    norm = np.linalg.norm(update)
    scaled.append(
      update / norm * min(CLIP, 1 if "N" in name[6:7] else float(norm))
    )
  output = rounds.run(create(name), clients)
  rounds.assert_same(output.result, np.sum(scaled, axis=0) / SIZE, 1e-5)
  assert output.measurements["num_clients"] == 3
  assert "client_ids" not in output.measurements


@pytest.mark.usefixtures("secure_sums")
def test_secure_and_plain_sums_are_the_same():
  clients = [*rounds.random_clients(3), *hostile_clients()]
  plain = rounds.run(create("FedAvgFactory"), clients)
  secure = create(
    "FedAvgFactory", aggregation="secure", update_type=rounds.FLAT_TYPE
  )
  output = rounds.run_flat(secure, clients)
  rounds.assert_same(output.result, rounds.flat(plain.result), 1e-5)


LONG = tff.TensorType(np.float32, [30_000])


def test_noise_is_new_in_every_round():
  # The program's seed must not reveal the noise.
  tf.random.set_seed(1)
  process = create("FedAvgFactory", noise=2.0, update_type=LONG)
  weight = rounds.Client(np.zeros(9)).signals()
  state = process.initialize()
  found = []
  for _ in range(3):
    output = process.next(state, [np.zeros(30_000, np.float32)], [weight])
    state = output.state
    found.append(np.asarray(output.result))
  for noise in found:
    assert noise.std() == pytest.approx(2.0 * CLIP / SIZE, rel=0.03)
    assert abs(noise.mean()) < 0.002
  for k in range(2):
    correlation = np.corrcoef(found[k], found[k + 1])[0, 1]
    assert abs(correlation) < 0.03


def test_there_is_a_step_without_clients():
  # A missing step would reveal that no client was there.
  factory = aggregators.FedAvgFactory(
    dp=privacy.dp(1.0, SIZE, CLIP), client_weighting="uniform"
  )
  process = factory.create_for_rounds(rounds.UPDATE_TYPE, rounds.SIGNALS_TYPE)
  output = rounds.run(process, [])
  assert output.result.num_clients == SIZE
  assert np.abs(rounds.flat(output.result.update)).max() > 0
  assert output.measurements["num_clients"] == 0


@pytest.mark.parametrize(
  "name",
  [
    "TermFactory",
    "VRedFactory",
    "SemiVRedFactory",
    "QFedAvgFactory",
    "FedNovaFactory",
    "AdaFedFactory",
    "AflFactory",
    "FedMgdaPlusFactory",
  ],
)
def test_coefficients_that_depend_on_others_are_refused(name):
  hparams = {"num_clients": 5} if name == "AflFactory" else {}
  with rejected("dp"):
    create(name, **hparams)


@pytest.mark.parametrize(
  ("options", "option"),
  [
    ({"client_weighting": "num_examples"}, "client_weighting"),
    ({"aggregation": "two_phase"}, "aggregation"),
    ({"aggregation": "stacked"}, "aggregation"),
    ({"defence": aggregators.Defence(kind="clipping")}, "defence"),
  ],
)
def test_what_would_void_the_noise_is_refused(options, option):
  rule = fedavg.FedAvgRule()
  options = {"client_weighting": "uniform", **options}
  with rejected(option):
    aggregators.RuleFactory(rule, dp=privacy.dp(1.0, SIZE, CLIP), **options)
