"""Tests that secure sums are the same integers in parts as in whole rounds."""

import functools
from collections.abc import Callable

import numpy as np
import pytest

from tests.rounds import problem
from tests.summing.comparison_sums_test import IN_THE_CLEAR
from tff_fair import runtime
from tff_fair.runtime import admission
from tff_fair.runtime.parts import cohort_cuts

pytestmark = pytest.mark.usefixtures("built_once")

# Maps a method to its number of phases and its options.
METHODS = {
  "semi_vred": (2, {"hparams": {"beta": 0.5}}),
  "fedavg": (1, {}),
  "gifair": (2, {"client_weighting": "uniform"}),
  "fedgini": (2, {}),
  "delta_fl": (5, {"hparams": {"alpha": 0.4}}),
}
every_method = pytest.mark.parametrize(
  "name",
  [
    "semi_vred",
    *(pytest.param(n, marks=pytest.mark.long) for n in [*METHODS][1:]),
  ],
)


@functools.cache
def built(name):
  return problem.build(name, aggregation="secure", **METHODS[name][1])


@functools.cache
def clients():
  """Returns a cohort in which some clients' data or training is unusable."""
  good = [*map(problem.client, problem.COHORT[:4])]
  return [good[0], problem.diverging(30), problem.hostile()[0], *good[1:]]


@functools.cache
def whole(name):
  """Returns the output of a round that is not cut into parts."""
  runtime.use_local(simulate_secure_sums=True, clients_per_part=0)
  process = built(name)
  return process.next(process.initialize(), clients())


@every_method
def test_what_reaches_the_server_in_a_phase_are_secure_sums(name):
  phases = (
    built(name).next.phases if METHODS[name][0] > 1 else [built(name).next]
  )
  assert len(phases) == METHODS[name][0]
  for phase in phases:
    assert not admission.has_intrinsic(phase, IN_THE_CLEAR)


@pytest.mark.long
@every_method
def test_the_sums_of_parts_are_those_of_the_whole_bit_for_bit(name):
  process, expected = built(name), whole(name)
  assert len(cohort_cuts.phases_of(process.next)) == METHODS[name][0]
  start = process.initialize()
  options = {"clients_per_part": 2, "simulate_secure_sums": True}
  engines: list[Callable[..., object]] = [
    runtime.use_local,
    functools.partial(runtime.use_dask, num_workers=1),
  ]
  for use in engines:
    use(**options)
    found = process.next(start, clients())
    problem.assert_equal(found.state, expected.state)
    measured = found.metrics["aggregator"]
    problem.assert_equal(measured, expected.metrics["aggregator"])
    assert measured["num_clients"] == 4
    assert measured["num_clients_excluded"] == 2
    assert all(np.ndim(value) == 0 for value in measured.values())
