"""Tests of phases with other arguments or results than the computation."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_fair import evaluation, runtime
from tff_fair.rounds import phased_rounds
from tff_fair.runtime import compilation_cache, phases
from tff_fair.runtime.compilation_cache import cache
from tff_fair.runtime.parts import cohort_cuts

_SERVER = tff.FederatedType(np.int32, tff.SERVER)
_CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)


@tff.tensorflow.computation(np.int32, np.int32)
def add(x, y):
  return x + y


@tff.federated_computation(_SERVER, _CLIENTS)
def whole(start, values):
  return tff.federated_map(add, (start, tff.federated_sum(values)))


@tff.federated_computation(_CLIENTS, _CLIENTS)
def pairs(values, own):
  return tff.federated_sum(tff.federated_map(add, (values, own)))


def halved(args):
  """Splits `start`, which the whole adds at the server, among the clients."""
  start, values = args
  share, rest = divmod(int(start), len(values))
  return values, [share + rest, *[share] * (len(values) - 1)]


def with_thousands(args, last):
  return np.int32(1000 * len(args) + last)


def build():
  return phases.PhasedComputation.create(
    whole,
    lambda: [pairs],
    conversions=phases.Conversions(halved, with_thousands, phases.never_retry),
  )


def results(comp):
  found = []
  for size in (0, 2):
    with runtime.in_parts_of(size):
      found.append(comp(20, [1, 2, 3]))
  return found


def test_parts_have_arguments_and_results_of_their_own():
  assert results(build()) == [26, 2026]
  assert cohort_cuts.phases_of(build()).why_none == ""


@pytest.mark.usefixtures("all_code_known")
def test_so_they_have_if_an_earlier_program_has_compiled_them(tmp_path):
  tmp_path.chmod(0o700)
  built = []

  def counted():
    built.append(1)
    return {"comp": build()}

  def compiled():
    kept = compilation_cache.CompilationCache(cache.Folder(tmp_path))
    return kept.computations("key", counted)

  assert results(compiled()["comp"]) == [26, 2026]
  assert len(built) == 1
  assert results(compiled()["comp"]) == [26, 2026]
  assert len(built) == 2  # Python functions are not cached.


@pytest.mark.parametrize(
  "conversions",
  [
    phases.NO_CONVERSIONS,
    phased_rounds.TWO_PHASE_CONVERSIONS,
    phased_rounds.CLIENT_ROWS_CONVERSIONS,
    phased_rounds.COMBINED_CONVERSIONS,
    evaluation._CONVERSIONS,
  ],
)
def test_a_later_program_knows_our_functions_by_their_names(conversions):
  assert (
    cohort_cuts.functions_by_name(cohort_cuts.function_names(conversions))
    == conversions
  )


def test_functions_of_others_have_no_name():
  conversions = phases.Conversions(halved, with_thousands, phases.never_retry)
  assert cohort_cuts.function_names(conversions) == ""
  assert cohort_cuts.functions_by_name("os:system os:system os:system") is None


def test_a_phase_that_takes_something_else_is_named():
  wrong = phases.PhasedComputation.create(whole, lambda: [pairs])
  with pytest.raises(TypeError, match=r"phase 0 .*<.*@SERVER"):
    _ = wrong.phases
  other = tff.federated_computation(lambda x, y: (x, y), (_SERVER, _CLIENTS))
  wrong = phases.PhasedComputation.create(whole, lambda: [other])
  with pytest.raises(TypeError, match=r"last .*int32@SERVER"):
    _ = wrong.phases


def test_phases_are_built_once_and_late():
  built = []

  def counted():
    built.append(1)
    return [whole]

  comp = phases.PhasedComputation.create(whole, counted)
  assert not built
  assert comp.phases == comp.phases == (whole,)
  assert len(built) == 1
  assert comp(1, [2, 3]) == 6
