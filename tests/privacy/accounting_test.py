"""Tests of epsilon: its value for Gaussian noise, its bounds, its inverse."""

import math

import numpy as np
import pytest

from tests.cases import one_of_each
from tests.refusals import rejected
from tff_fair import privacy

ORDERS = np.concatenate([np.arange(1.1, 11, 0.1), np.arange(11, 64)])


def dp(noise_multiplier=1.0, clients_per_round=10):
  return privacy.dp(noise_multiplier, clients_per_round, clip=0.5)


def of_gaussian(sigma, rounds, delta):
  """Returns epsilon from Renyi's divergences by Canonne et al., Prop. 12."""
  divergence = rounds * ORDERS / (2 * sigma**2)
  found = (
    divergence + np.log1p(-1 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1)
  )
  return np.min(found)


@pytest.mark.parametrize("rounds", [1, 20])
@pytest.mark.parametrize(
  # With cohorts of a fixed size, a client is not left out but replaced, which
  # changes the sum by up to twice the clip.
  ("sampling", "sigma"),
  [("poisson", 3.0), ("fixed_size", 1.5)],
)
def test_all_clients_in_every_round_is_the_gaussian_mechanism(
  sampling, sigma, rounds
):
  found = privacy.epsilon(
    dp(3.0), num_clients=10, rounds=rounds, delta=1e-5, sampling=sampling
  )
  assert found == pytest.approx(of_gaussian(sigma, rounds, 1e-5), rel=1e-3)


@pytest.mark.parametrize("sampling", [privacy.FIXED_SIZE, privacy.POISSON])
def test_more_noise_fewer_rounds_and_larger_populations_spend_less(sampling):
  def spent(noise=2.0, num_clients=1000, rounds=100):
    return privacy.epsilon(
      dp(noise), num_clients=num_clients, rounds=rounds, sampling=sampling
    )

  usual = spent()
  assert 0 < spent(noise=4.0) < usual < spent(rounds=1000) < math.inf
  same_delta = [
    privacy.epsilon(
      dp(), num_clients=n, rounds=10, delta=1e-5, sampling=sampling
    )
    for n in (10, 10_000)
  ]
  assert same_delta == sorted(same_delta, reverse=True)


def test_no_round_spends_nothing_and_no_noise_everything():
  assert privacy.epsilon(dp(), num_clients=100, rounds=0) == 0
  assert privacy.epsilon(dp(0.0), num_clients=100, rounds=1) == math.inf


def test_delta_is_below_one_over_the_population():
  assert privacy.default_delta(1000) == pytest.approx(1000**-1.1)


@pytest.mark.parametrize(
  ("values", "option"),
  [
    ({"num_clients": 9}, "num_clients"),  # Fewer than a cohort.
    ({"rounds": -1}, "rounds"),
    ({"delta": 0.0}, "delta"),
    ({"sampling": "proportional"}, "sampling"),
  ],
)
def test_what_is_out_of_range_is_named(values, option):
  with rejected(option):
    privacy.epsilon(dp(), **{"num_clients": 100, "rounds": 3, **values})


@pytest.mark.parametrize(
  ("values", "option"),
  [
    ((-1.0, 10, 1.0), "noise_multiplier"),
    ((1.0, 0, 1.0), "clients_per_round"),
    ((1.0, 10, 0.0), "clip"),
    ((1.0, 10, 1e-46), "clip"),
  ],
)
def test_noise_that_makes_no_sense_is_named(values, option):
  with rejected(option):
    privacy.dp(*values)


@pytest.mark.parametrize(
  ("epsilon", "sampling"),
  one_of_each(
    [
      (0.5, privacy.POISSON),
      (8.0, privacy.FIXED_SIZE),
      (300.0, privacy.POISSON),
    ]
  ),
)
def test_the_noise_for_an_epsilon_spends_it_and_no_more(epsilon, sampling):
  setting = {"num_clients": 200, "rounds": 5, "sampling": sampling}
  noise = privacy.noise_for(epsilon, clients_per_round=10, **setting)
  spent = privacy.epsilon(dp(noise), **setting)
  assert 0.99 * epsilon < spent <= epsilon


def test_the_noise_of_all_clients_in_every_round_is_the_gaussian_mechanisms():
  noise = privacy.noise_for(
    2.0, clients_per_round=10, num_clients=10, rounds=3, delta=1e-5
  )
  assert of_gaussian(noise / 2, 3, 1e-5) == pytest.approx(2.0, rel=3e-3)


@pytest.mark.parametrize(
  ("epsilon", "named"),
  [(0.0, "(0, inf)"), (1e-3, "65536")],
)
def test_an_epsilon_out_of_reach_is_refused(epsilon, named):
  with rejected("epsilon", named):
    privacy.noise_for(
      epsilon,
      clients_per_round=9,
      num_clients=100,
      rounds=5,
      delta=1e-12,
      sampling=privacy.POISSON,
    )
