"""Tests of the cache of compiled computations, which programs share."""

import collections
import functools
import json
import os
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import compilation_cache, native
from tff_fair.runtime.compilation_cache import cache, entries, keys
from tff_fair.runtime.parts import cohort_cuts

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("all_code_known")]

State = tff.learning.templates.LearningAlgorithmState


class Unknown(NamedTuple):
  """A container class that the cache does not know."""

  total: tf.Tensor


@tff.tensorflow.computation(
  tff.SequenceType(np.float32), collections.OrderedDict(a=[np.float32])
)
def one_client(data, server):
  total = tf.reduce_sum(data.batch(8).get_single_element())
  return State([total, total], (server["a"][0],), {"b": total}, (), total)


@tff.federated_computation(
  tff.FederatedType(collections.OrderedDict(a=[np.float32]), tff.SERVER),
  tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS),
)
def sums(server, data):
  return tff.federated_sum(
    tff.federated_map(one_client, (data, tff.federated_broadcast(server)))
  )


@tff.tensorflow.computation
def unknown():
  return Unknown(tf.constant(1.0))


ARGUMENTS = (
  collections.OrderedDict(a=[0.5]),
  [tf.data.Dataset.from_tensor_slices(np.float32([k, 0.25])) for k in range(3)],
)


class Building:
  """Counts how often computations are built and compiled."""

  def __init__(self, monkeypatch):
    self.built = self.compiled = 0
    compile_now = tff.backends.native.desugar_and_transform_to_native

    def compile_and_count(comp):
      self.compiled += 1
      return compile_now(comp)

    monkeypatch.setattr(
      tff.backends.native, "desugar_and_transform_to_native", compile_and_count
    )

  def __call__(self):
    self.built += 1
    return {"sums": sums, "client": one_client}


@pytest.fixture
def building(monkeypatch):
  return Building(monkeypatch)


@pytest.fixture
def path(tmp_path):
  return tmp_path / "cache"


@pytest.fixture
def kept(path):
  return cache.CompilationCache(cache.Folder(path))


def test_the_second_time_nothing_is_built_or_compiled(kept, building):
  without = compilation_cache.NO_CACHE.computations("key", building)["sums"]
  expected = without(*ARGUMENTS)
  counts = []
  for _ in range(2):
    found = kept.computations("key", building)
    result = found["sums"](*ARGUMENTS)
    counts.append((building.built, building.compiled))
    assert isinstance(result, State)
    assert [type(part) for part in result] == [type(part) for part in expected]
    tf.nest.map_structure(np.testing.assert_array_equal, result, expected)
    assert {n: c.type_signature for n, c in found.items()} == {
      "sums": sums.type_signature,
      "client": one_client.type_signature,
    }
  # Of the computations without a cache, `sums` is compiled, and of those in the
  # cache, `sums` and `client`.
  assert counts == [(2, 3), (2, 3)]


def test_the_parts_of_a_computation_are_kept_beside_it(kept, building):
  def in_parts():
    comp = kept.computations("key", building)["sums"]
    with runtime.in_parts_of(2):
      return comp(*ARGUMENTS)

  cold = in_parts()
  # Compiled are `client` and three forms of `sums`: the whole, a part up to its
  # sum, and the rest from there.
  counts = (building.built, building.compiled)
  assert counts == (1, 4)
  warm = in_parts()
  assert (building.built, building.compiled) == counts
  with runtime.in_parts_of(2):
    traced = sums(*ARGUMENTS)
  for found in (cold, warm, traced):
    assert isinstance(found, State)
    tf.nest.map_structure(
      np.testing.assert_array_equal, found, sums(*ARGUMENTS)
    )


def test_that_a_computation_cannot_be_cut_is_kept(kept, building, monkeypatch):
  tried = []

  def refuse(comp):
    tried.append(comp)
    raise ValueError("one sum depends on another")

  monkeypatch.setattr(
    tff.backends.native, "compile_to_mergeable_comp_form", refuse
  )
  for _ in range(2):
    comp = kept.computations("key", building)["sums"]
    assert not cohort_cuts.phases_of(comp)
    assert "depend on one another" in cohort_cuts.phases_of(comp).why_none
  assert len(tried) == 1


def test_a_kept_computation_can_be_part_of_another(kept, building):
  kept.computations("key", building)
  inner = kept.computations("key", building)["sums"]

  @tff.federated_computation(*sums.type_signature.parameter)
  def outer(server, data):
    return inner(server, data)

  assert isinstance(outer(*ARGUMENTS), State)
  np.testing.assert_array_equal(
    tf.nest.flatten(outer(*ARGUMENTS)), tf.nest.flatten(sums(*ARGUMENTS))
  )


def test_a_computation_without_a_key_is_not_kept(kept, building, path):
  key = functools.partial(building, lambda: 1)
  for _ in range(2):
    assert kept.computations(key, building)["sums"] is sums
    assert kept.number(key, lambda: 3) == 3
  assert building.built == 2
  assert building.compiled == 0
  assert not path.exists()


def test_containers_of_others_are_not_kept(kept, path):
  for _ in range(2):
    comp = kept.computations("key", lambda: {"f": unknown})["f"]
    assert comp() == Unknown(1.0)
    assert isinstance(comp(), Unknown)
  assert not path.exists()


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_damaged_entry_is_built_anew(kept, building, path, is_whole):
  kept.computations("key", building)
  (file,) = path.iterdir()
  if is_whole:
    cache.Folder(path).write(file.name, b"no zip file")
  else:
    file.write_bytes(file.read_bytes()[:-100])
  for _ in range(2):
    kept.computations("key", building)
  assert building.built == 2


@pytest.mark.parametrize(
  "name", ["os:stat_result", "builtins:int", "os:system", "tff_fair.types:Rule"]
)
def test_an_entry_names_no_classes_but_containers_of_ours(name, monkeypatch):
  written = entries.write({"f": native.compile_ahead(one_client)})
  monkeypatch.setattr(json, "loads", lambda _: [name] * 9)
  with pytest.raises(ValueError, match="not a container"):
    entries.read(written)


def test_a_number_is_counted_once(kept, path):
  assert kept.number("key", lambda: 2**70) == 2**70
  assert kept.number("key", lambda: 0) == 2**70
  (file,) = path.iterdir()
  file.write_bytes(file.read_bytes()[:-1])
  assert kept.number("key", lambda: 5) == 5


@pytest.fixture
def of_user(monkeypatch, tmp_path):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  monkeypatch.delenv(compilation_cache.ENVIRONMENT_VARIABLE)
  return tmp_path / "tff_fair"


def test_the_cache_of_the_user(of_user, building):
  for _ in range(2):
    compilation_cache.user_cache().computations("key", building)
  assert building.built == 1
  (files,) = of_user.iterdir()
  assert files.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
  ("place", "name", "value"),
  [
    (os.environ, compilation_cache.ENVIRONMENT_VARIABLE, "0"),
    (os.environ, compilation_cache.ENVIRONMENT_VARIABLE, "False"),
    (os.environ, "XDG_CACHE_HOME", os.devnull),
    (vars(keys), "SOURCE_DIGEST", "before"),
    (vars(runtime), "compiles_natively", lambda: False),
  ],
)
def test_the_user_has_no_cache(
  of_user, building, monkeypatch, place, name, value
):
  monkeypatch.setitem(place, name, value)
  for _ in range(2):
    compilation_cache.user_cache().computations("key", building)
  assert building.built == 2
  assert not of_user.exists()
