import itertools
import types

import numpy as np
import pytest

from tests.refusals import rejected
from tff_fair.experiments import RunSpec
from tff_fair.experiments.training import sampling

pytestmark = pytest.mark.pure

NUM_CLIENTS = 7
EXAMPLES = np.array([1, 2, 3, 4, 5, 10, 25])
NUM_ROUNDS = 3000
KINDS = ("uniform", "proportional", "all")


def cohorts(num_rounds, num_examples=EXAMPLES, *, size=3, **changes):
  arrays = {n: changes.pop(n, None) for n in ("labels", "first_rounds")}
  spec = RunSpec(**{"seed": 5, **changes})
  sampler = sampling.Sampler(spec, size, num_examples, **arrays)
  return [sampler(round_num) for round_num in range(1, num_rounds + 1)]


def drawn(*args, **kwargs):
  return [cohort.drawn for cohort in cohorts(*args, **kwargs)]


def check_frequency(lists, expected):
  """Checks each client's count in the lists, to four standard deviations."""
  counts = np.bincount(np.concatenate(lists), minlength=len(expected))
  deviation = np.sqrt(len(lists) * expected * (1 - expected))
  assert np.all(np.abs(counts - len(lists) * expected) <= 4 * deviation)


@pytest.mark.parametrize("kind", ["uniform", "proportional"])
def test_a_cohort_has_distinct_clients_in_order(kind):
  for cohort in cohorts(50, sampling=kind):
    assert len(cohort.drawn) == 3
    assert cohort.drawn == sorted(set(cohort.drawn))
    assert set(cohort.drawn) <= set(range(NUM_CLIENTS))
    assert cohort.reporting == cohort.drawn


@pytest.mark.parametrize("kind", ["uniform", "proportional"])
def test_cohorts_depend_on_seed_and_round_alone(kind):
  found = drawn(20, sampling=kind)
  assert found == drawn(20, sampling=kind)
  assert found != drawn(20, sampling=kind, seed=6)
  assert len({tuple(cohort) for cohort in found}) > 5


def test_the_draw_of_cohorts_does_not_change():
  # Runs of earlier versions must resume with the same cohorts.
  assert drawn(3) == [[1, 2, 4], [0, 2, 5], [4, 5, 6]]


def test_uniform_sampling_prefers_no_client():
  check_frequency(drawn(NUM_ROUNDS), np.full(NUM_CLIENTS, 3 / NUM_CLIENTS))


def test_proportional_sampling_follows_the_examples():
  lists = drawn(NUM_ROUNDS, sampling="proportional", size=1)
  check_frequency(lists, EXAMPLES / EXAMPLES.sum())


def by_loss(losses, size, candidates):
  """Returns a sampler by power of choice, which knows clients' losses."""
  spec = RunSpec(
    seed=5, sampling="power_of_choice", sampling_candidates=candidates
  )
  sampler = sampling.Sampler(spec, size, np.arange(1, len(losses) + 1))
  sampler.last_losses.values[:] = losses
  return sampler


def test_of_its_candidates_power_of_choice_takes_those_of_the_largest_loss():
  sampler = by_loss([1, np.inf, 3, 2, 3, np.inf, 3], 3, 7)
  # Clients without a loss come first; ties go to the smaller id.
  assert sampler(1).drawn == [1, 2, 5]
  sampler = by_loss([1, 0, 3, 2, 3, 0.5, 3], 3, 7)
  assert sampler(1).drawn == [2, 4, 6]


def test_candidates_are_drawn_by_their_examples():
  """Two of three clients with 1, 2 and 3 examples are candidates."""
  n, losses = [1, 2, 3], [3.0, 1.0, 2.0]
  expected = np.zeros(3)
  for first, second in itertools.permutations(range(3), 2):
    probability = n[first] / 6 * n[second] / (6 - n[first])
    expected[max(first, second, key=lambda k: losses[k])] += probability
  sampler = by_loss(losses, 1, 2)
  lists = [sampler(t).drawn for t in range(1, NUM_ROUNDS + 1)]
  check_frequency(lists, expected)


def test_a_client_that_did_not_count_has_its_last_loss():
  known = sampling.LastLosses(3)
  clients = {"client_id": np.array([0, 2]), "loss": np.array([0.5, None])}
  known.on_round(types.SimpleNamespace(clients=clients))
  np.testing.assert_array_equal(known.values, [0.5, np.inf, np.inf])
  clients["loss"] = np.array([None, 0.25])
  known.on_round(types.SimpleNamespace(clients=clients))
  np.testing.assert_array_equal(known.values, [0.5, np.inf, 0.25])


@pytest.mark.parametrize("kind", KINDS)
def test_clients_take_part_from_their_round_on(kind):
  first = np.array([1, 1, 40, 40, 40, 40, 10**9])
  found = drawn(2000, first_rounds=first, sampling=kind)
  assert found[:39] == [[0, 1]] * 39
  later = found[39:]
  expected = np.ones(6) if kind == "all" else np.full(6, 3 / 6)
  if kind == "proportional":
    assert {len(cohort) for cohort in later} == {3}
  else:
    check_frequency(later, expected)
  assert set(np.concatenate(later)) == set(range(6))


def test_sizes_in_a_range_are_equally_likely():
  lists = [[len(cohort)] for cohort in drawn(NUM_ROUNDS, size="2-6")]
  check_frequency(lists, np.array([0, 0, 0.2, 0.2, 0.2, 0.2, 0.2]))


def test_a_client_that_drops_out_is_drawn_and_does_not_report():
  kept = cohorts(NUM_ROUNDS, sampling="all", dropout=0.3)
  assert [cohort.drawn for cohort in kept] == drawn(NUM_ROUNDS, sampling="all")
  check_frequency(
    [cohort.reporting for cohort in kept], np.full(NUM_CLIENTS, 0.7)
  )
  assert kept == cohorts(NUM_ROUNDS, sampling="all", dropout=0.3)
  # Dropout does not change which clients are drawn.
  assert drawn(9, dropout=0.3) == drawn(9)


def dropped(num_rounds, num_examples=EXAMPLES, *, dropout=0.3, **changes):
  """Returns whether clients drop out in each round, bool[rounds, clients]."""
  kept = cohorts(
    num_rounds, num_examples, sampling="all", dropout=dropout, **changes
  )
  clients = np.arange(len(num_examples))
  return np.array([~np.isin(clients, cohort.reporting) for cohort in kept])


@pytest.mark.parametrize("dropout", [0.2, 0.9])
def test_clients_have_their_own_probability_of_dropping_out(dropout):
  found = dropped(
    200, np.ones(400), dropout=dropout, dropout_kind="by_client"
  ).mean(0)
  assert found.mean() == pytest.approx(dropout, abs=0.02)
  # The rates are uniform over the widest interval around the mean.
  width = min(dropout, 1 - dropout)
  assert found.std() == pytest.approx(width / np.sqrt(3), rel=0.15)


def rates(dropout):
  """Returns seven rates, evenly spaced in the widest interval around a mean."""
  width = min(dropout, 1 - dropout)
  return np.linspace(dropout - width, dropout + width, NUM_CLIENTS)


@pytest.mark.parametrize("dropout", [0.3, 0.8])
@pytest.mark.parametrize(
  ("kind", "labels"), [("by_size", None), ("by_label", np.arange(7)[::-1])]
)
def test_clients_drop_out_by_their_size_or_label(kind, labels, dropout):
  found = dropped(NUM_ROUNDS, labels=labels, dropout=dropout, dropout_kind=kind)
  # The first client has the fewest examples or the highest label.
  np.testing.assert_allclose(found.mean(0), rates(dropout)[::-1], atol=0.04)


def test_clients_are_away_for_blocks_of_rounds():
  blocks = dropped(400, np.ones(50), dropout_kind="blocks", dropout_rounds=4)
  blocks = blocks.reshape(100, 4, 50)
  assert (blocks == blocks[:, :1]).all()
  assert blocks.mean() == pytest.approx(0.3, abs=0.03)
  assert (blocks[1:, 0] != blocks[:-1, 0]).mean() == pytest.approx(
    2 * 0.3 * 0.7, abs=0.04
  )


def test_clients_come_and_go_with_a_period():
  found = dropped(
    6000, np.ones(40), dropout=0.4, dropout_kind="periodic", dropout_rounds=6
  )
  of_phases = found.reshape(1000, 6, 40).mean(0)  # [6, 40]
  np.testing.assert_allclose(of_phases.mean(0), 0.4, atol=0.03)
  # The rates follow a sine of amplitude 0.4, at six places of its period.
  np.testing.assert_allclose(of_phases.std(0), 0.4 / np.sqrt(2), atol=0.03)
  # Clients begin at different times.
  assert len(set(of_phases.argmax(0))) == 6


def test_one_client_reports_where_all_would_drop_out():
  kept = cohorts(300, dropout=1 - 1e-9)
  assert all(len(cohort.reporting) == 1 for cohort in kept)
  assert all(set(c.reporting) <= set(c.drawn) for c in kept)
  places = [c.drawn.index(c.reporting[0]) for c in kept]
  check_frequency([[place] for place in places], np.full(3, 1 / 3))


def test_evaluated_clients_are_a_subset_that_stays():
  def draw(first, **settings):
    return sampling.evaluation_clients(RunSpec(**settings), first).tolist()

  assert draw(np.ones(3)) == [0, 1, 2]
  first = np.array([*range(1, 1001), sampling.NEVER])
  some = draw(first, evaluation_clients=30, seed=5)
  assert len(set(some)) == 31
  assert some == sorted(some)
  assert some[-1] == 1000  # This client never trains.
  assert some == draw(first, evaluation_clients=30, seed=5)
  assert some != draw(first, evaluation_clients=30, seed=6)
  with rejected("evaluation_clients"):
    draw(first[-4:], evaluation_clients=4)


@pytest.mark.parametrize(
  ("num_clients", "share", "number"),
  [(10, 0.3, 3), (10, 0.001, 1), (10, 0.999, 9), (2, 0.5, 1)],
)
def test_attackers_are_a_share(num_clients, share, number):
  found = sampling.draw_attackers(5, num_clients, share)
  assert len(set(found.tolist())) == number
  assert found.tolist() == sorted(found.tolist())
  assert set(found.tolist()) <= set(range(num_clients))


# Tests of the rounds from which clients take part.

NAMES = [*"abcdefghij"]
TASK = types.SimpleNamespace(name="ten", num_clients=10, client_names=NAMES)


def first_rounds(**settings):
  return sampling.first_rounds(RunSpec(**settings), TASK)


def test_shares_are_drawn_by_the_seed():
  found = first_rounds(unseen_clients=0.3, join_round="0.5:20", seed=4)
  assert (found == sampling.NEVER).sum() == 3
  assert (found == 20).sum() == 4  # Half of seven.
  again = first_rounds(unseen_clients="0.3", join_round="0.5:20", seed=4)
  np.testing.assert_array_equal(found, again)
  others = [first_rounds(unseen_clients=0.3, seed=s).tolist() for s in range(9)]
  assert len({tuple(rounds) for rounds in others}) > 5
  assert first_rounds().tolist() == [1] * 10


def test_clients_are_named():
  found = first_rounds(unseen_clients=["b", "j"], join_round="c:5,a:7")
  assert found.tolist() == [*(7, sampling.NEVER, 5), *[1] * 6, sampling.NEVER]
  marks = sampling.participation_columns(found)
  assert np.flatnonzero(marks["unseen"]).tolist() == [1, 9]
  assert marks["join_round"].tolist() == [7, 1, 5, *[1] * 7]
  assert sampling.participation_columns(np.ones(3)) == {}


@pytest.mark.parametrize(
  ("settings", "field"),
  [
    ({"unseen_clients": "k"}, "unseen_clients"),
    ({"unseen_clients": 1.5}, "unseen_clients"),
    ({"unseen_clients": NAMES}, "unseen_clients"),
    ({"unseen_clients": "a,,b"}, "unseen_clients"),
    ({"join_round": "k:3"}, "join_round"),
    ({"join_round": "a"}, "join_round"),
    ({"join_round": "a:1"}, "join_round"),
    ({"join_round": "a:101"}, "join_round"),
    ({"join_round": ",".join(f"{n}:2" for n in NAMES)}, "join_round"),
    ({"unseen_clients": "a", "join_round": "a:3"}, "join_round"),
  ],
)
def test_settings_that_name_no_client_or_leave_none_are_refused(
  settings, field
):
  with rejected(field):
    first_rounds(**settings)
