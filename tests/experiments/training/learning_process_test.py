"""Tests that the cache key of a process has all settings that decide it."""

import dataclasses
import functools
import typing

import numpy as np
import pytest
import tensorflow as tf

from tests.cases import one_of_each
from tests.experiments.spec import run_spec_test
from tests.experiments.training.small_run import METHODS, SMALL, parts_of
from tff_fair import declared, methods
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import settings, task_loading
from tff_fair.experiments.training import (
  client_data,
  client_evaluation,
  learning_process,
  sampling,
)
from tff_fair.runtime import compilation_cache
from tff_fair.runtime.compilation_cache import cache, keys

SPEC = RunSpec(algorithm="fedavg", task_options=SMALL.task_options)
_DECAY = {"client_learning_rate_decay": 0.9}
_BIAS = {"attack": "bias", "attack_strength": 1.0}
_PRIVATE = {"client_weighting": "uniform", "dp_noise": 1.0, "dp_clip": 0.5}
# Maps a setting to the settings of a run in which the setting is then changed
# to its value in `run_spec_test.OTHERS`. The default is what that value needs.
BASES = {
  "task": {"task_options": {}},
  "model": {"task_options": {"num_clients": 6}, "model": "mlp"},
  "algorithm": {"algorithm": "fedavg_n"},
  "client_learning_rate_decay_kind": _DECAY,
  "client_learning_rate_decay_rounds": _DECAY,
  "server_learning_rate_decay_kind": {"server_learning_rate_decay": 0.9},
  "seed": {"local_epochs": (1, 2)},
  "attack": _BIAS,
  "attack_share": _BIAS,
  "attack_strength": _BIAS,
  "trimmed_share": {"defence": "trimmed_mean"},
  "dp_noise": _PRIVATE,
  "dp_clip": _PRIVATE,
}
# Settings that no key has, with the reasons.
NOT_IN_THE_KEY = {
  **dict.fromkeys(
    ("data_dir", "data_seed", "validation_fraction"),
    "The parts of the model depend on the data.",
  ),
  **dict.fromkeys(
    (
      *("sampling", "clients_per_round", "unseen_clients", "join_round"),
      *("dropout", "dropout_kind", "dropout_rounds", "sampling_candidates"),
    ),
    "Cohorts are arguments of a round.",
  ),
  "client_learning_rate": "The state of the process has it.",
  "clients_per_part": "The runtime cuts, and keeps what it makes by itself.",
  **dict.fromkeys(
    (
      *("total_rounds", "rounds_per_evaluation", "rounds_per_checkpoint"),
      *("criterion", "patience", "measure_improvement", "tape_rounds"),
      "save_updates",
    ),
    "The loop decides what is called, and how often.",
  ),
  "evaluation_clients": "They are an argument of an evaluation.",
  **dict.fromkeys(
    ("score", "measures", "score_class"),
    "The sums that clients send for them are in the key of evaluations.",
  ),
  **dict.fromkeys(
    (
      *("local_baseline", "pooled_baseline"),
      *("finetune_epochs", "finetune_learning_rate"),
    ),
    "Baselines train in the program.",
  ),
  "threshold_for": "The program chooses it.",
  "loss_reference": "The losses are in the key, once they are measured.",
  **dict.fromkeys(
    ("initial_model", "initial_run"),
    "Where the weights are no part of the first state, they are in the key.",
  ),
  "model_seed": "So are those of a model whose seed decides more.",
  **{
    field.name: "Labels are corrected before the first round."
    for field in dataclasses.fields(settings.federation.CorrectionSettings)
  },
}


pytestmark = pytest.mark.usefixtures("all_code_known")


class FoundError(Exception):
  """An error that holds a cache key."""


class Asked(compilation_cache.CompilationCache):
  """A cache that builds nothing, but raises an error with the requested key."""

  def computations(self, key, build):
    del build
    raise FoundError(keys.digest(key))


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch):
  """Caches loaded tasks, because most settings do not change the task."""
  load = task_loading.load

  @functools.cache
  def load_once(task, model, options, seeds):
    return load(
      RunSpec(
        task=task,
        model=model,
        task_options=dict(options),
        data_seed=seeds.data,
        model_seed=seeds.model,
      )
    )

  def loaded(s, at_workers=None):
    assert at_workers is None
    return load_once(s.task, s.model, tuple(s.task_options.items()), s.seeds)

  monkeypatch.setattr(task_loading, "load", loaded)


def key(spec):
  with pytest.raises(FoundError) as found:
    parts_of(spec, Asked(None))
  return str(found.value)


def changes():
  """Yields each setting in the key, with two runs that differ in it."""
  for name, (value, needs) in run_spec_test.OTHERS.items():
    if name not in NOT_IN_THE_KEY:
      base = SPEC.replace(**BASES.get(name, needs))
      yield name, base, base.replace(**{name: value})
  options = {**SPEC.task_options, "num_clients": 7}
  yield "task_options", SPEC, SPEC.replace(task_options=options)
  base = SPEC.replace(algorithm="qfedavg")
  yield "hparams", base, base.replace(hparams={"q": 2.0})


def test_every_setting_is_in_the_key_or_has_a_reason():
  assert NOT_IN_THE_KEY.keys() <= RunSpec.fields().keys()
  for name, base, changed in changes():
    assert key(base) == key(base.replace()), name
    assert key(base) != key(changed), name


def test_seeds_and_initial_weights_share_what_was_compiled(tmp_path):
  path = tmp_path / "model.keras"
  task_loading.load(SPEC.replace(model_seed=2)).keras_model_fn().save(path)
  others = {"seed": 1}, {"model_seed": 1}, {"initial_model": str(path)}
  assert {key(SPEC), *(key(SPEC.replace(**other)) for other in others)} == {
    key(SPEC)
  }


# These initial weights differ in their last bits from program to program.
ORTHOGONAL = {
  "task": "shakespeare_character",
  "task_options": {"synthetic": True, "sequence_length": 5, "lstm_units": 8},
}


# Tests of methods whose states hold weights in different fields.
@pytest.mark.parametrize(
  ("algorithm", "task"),
  one_of_each(
    [("ditto", {}), ("fedavg", ORTHOGONAL), ("afl", {}), ("fedmdfg", {})]
  ),
)
def test_what_seeds_share_begins_as_their_own_process(algorithm, task):
  spec = SPEC.replace(
    algorithm=algorithm, seed=2**63 + 5, model_seed=11, **task
  )
  parts = parts_of(spec)
  found = parts.prepare_initial_state(parts.process.initialize())
  own = learning_process.build_uncached(
    spec, parts.task, learning_process.arguments(spec, parts.task, parts)
  ).initialize()
  tf.nest.assert_same_structure(found, own)
  tf.nest.map_structure(np.testing.assert_array_equal, found, own)


def test_other_settings_share_what_was_compiled():
  changed = SPEC.replace(
    sampling="proportional",
    clients_per_round=3,
    dropout=0.5,
    dropout_kind="by_client",
    total_rounds=7,
    rounds_per_evaluation=3,
    rounds_per_checkpoint=2,
    criterion="mean",
    patience=4,
    measure_improvement=True,
    evaluation_clients=5,
  )
  assert key(SPEC) == key(changed)


def test_every_optimizer_and_method_has_a_key_of_its_own():
  specs = [
    *(SPEC.replace(algorithm=name, **needs) for name, needs in METHODS.items()),
    *(
      SPEC.replace(**{f"{place}_optimizer": name})
      for place in ("client", "server")
      for name in typing.get_args(settings.learning.OptimizerName)
      if name != "sgd"
    ),
  ]
  assert len({key(spec) for spec in specs}) == len(specs)


def other_value(h: declared.Field):
  """Returns a valid value that is not the default."""
  candidates = (
    *(True, False, 1, 2, 0.25, 0.5),
    *("random", "reverse", "uniform", "normal"),
  )
  for value in candidates:
    try:
      checked = h.check(value)
    except ValueError:
      continue
    if checked != h.default:
      return checked
  raise AssertionError(f"Add a valid value of {h.name}.")


@pytest.mark.parametrize("algorithm", METHODS)
def test_every_hyperparameter_is_in_the_key(algorithm):
  spec = SPEC.replace(algorithm=algorithm, **METHODS[algorithm])
  specs = [
    spec.replace(hparams={name: other_value(h)})
    for name, h in methods.hyperparameters(algorithm).items()
  ]
  assert len({key(s) for s in (spec, *specs)}) == 1 + len(specs)


def test_results_are_those_of_a_process_that_was_built(tmp_path):
  spec = SPEC.replace(attack="scaling", attack_strength=-2.0)
  kept = cache.CompilationCache(cache.Folder(tmp_path / "cache"))
  found = []
  for used in (compilation_cache.NO_CACHE, kept, kept):
    parts = parts_of(spec, used)
    train_data, test_data = (
      client_data.ClientLoader(half, parts.task.element_spec)
      for half in (parts.task.train, parts.task.test)
    )
    data = train_data([0, 2, 5])
    state = parts.prepare_initial_state(parts.process.initialize())
    for _ in range(2):
      state, metrics = parts.process.next(state, data)
    evaluation = client_evaluation.build_evaluation(parts, test_data)(state)
    cost = parts.costs(state, sampling.DrawnCohort([0, 2, 5], [0, 2]))
    found.append((state, metrics, evaluation.clients, cost))
  built, *others = found
  for other in others:
    tf.nest.assert_same_structure(built, other)
    tf.nest.map_structure(np.testing.assert_array_equal, built, other)
