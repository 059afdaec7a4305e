"""Tests of the registry: hyperparameters, builders and messages."""

import inspect

import numpy as np
import pytest

from tests import small_problem
from tests.methods import cohorts
from tests.refusals import rejected
from tff_fair import aggregators, algorithms, declared, methods

NAMES = methods.names()
build = small_problem.process


def test_each_method_has_a_title_of_its_own():
  titles = {methods.title(name): name for name in NAMES}
  assert len(titles) == len(NAMES)
  assert titles["FedMGDA+"] == "fedmgda_plus"
  assert methods.title("mine") == "mine"
  assert titles == {title: methods.canonical_name(title) for title in titles}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_runs(name):
  builder = algorithms.get(name).build
  read = methods.hyperparameters(name)
  assert tuple(read.values()) == builder.hyperparameters
  assert list(read) == [h.name for h in builder.hyperparameters]
  parameters = inspect.signature(builder).parameters
  assert list(parameters) == [
    "model_fn",
    "client_optimizer",
    *read,
    "options",
  ]
  for h in read.values():
    assert parameters[h.name].default == h.default
    assert parameters[h.name].annotation == h.annotation
    assert parameters[h.name].kind is inspect.Parameter.KEYWORD_ONLY
    h.validate(h.default)


@pytest.mark.parametrize("name", NAMES)
def test_help_has_every_hyperparameter(name):
  text = inspect.getdoc(algorithms.get(name).build)
  words = " ".join(text.split())
  for h in methods.hyperparameters(name).values():
    assert f"{h.name}: {h.meaning}" in words
    assert h.meaning.endswith(".")
    assert h.interval in words


@pytest.mark.parametrize("name", NAMES)
def test_a_builder_is_public(name):
  builder = getattr(algorithms, f"build_{name}")
  assert builder is algorithms.get(name).build
  assert builder.__name__ == f"build_{name}"
  assert builder.__module__ == methods.METHODS[name].module
  assert f"build_{name}" in algorithms.__all__


def test_an_unknown_method_is_told_with_the_one_that_it_may_mean():
  for ask in (methods.hyperparameters, methods.get):
    with rejected("name", "'fedavgg'", "mean fedavg", "names()"):
      ask("fedavgg")


@pytest.mark.parametrize(
  ("name", "options", "option"),
  [
    ("fedavgg", {}, "name"),
    ("term", {"hparams": {"tt": 1.0}}, "tt"),
    ("afl", {}, "num_clients"),
    ("afl", {"num_clients": 0}, "num_clients"),
    ("fedavg", {"num_clients": 0}, "num_clients"),
    ("fedavg", {"aggregation": "summed"}, "aggregation"),
    ("fedavg", {"client_weighting": "equal"}, "client_weighting"),
    (
      "fedavg",
      {"server_learning_rate_decay": 2.0},
      "server_learning_rate_decay",
    ),
    (
      "fedavg",
      {"server_learning_rate_decay_kind": "linear"},
      "server_learning_rate_decay_kind",
    ),
    ("fedavg", {"batch_size": 0}, "batch_size"),
  ],
)
def test_an_error_names_the_option_at_fault(name, options, option):
  with rejected(option):
    build(name, **options)


def test_what_a_method_fixes_is_no_hyperparameter_of_it():
  with rejected("epsilon", "none"):
    build("fedmgda", hparams={"epsilon": 0.5})
  with pytest.raises(TypeError, match="normalize"):
    algorithms.build_mgda_prox(
      small_problem.functional_model(),
      client_optimizer=small_problem.optimizer(),
      normalize=False,  # type: ignore[call-arg]
    )


@pytest.mark.parametrize(
  "name", [n for n in NAMES if methods.METHODS[n].factory]
)
def test_a_factory_has_the_hyperparameters_of_its_rule(name):
  method = methods.METHODS[name]
  factory = getattr(aggregators, method.factory)
  assert factory.__module__ == method.module
  rule = algorithms.get(name).build.rule
  fields = declared.fields_of(rule).values()
  values = {h.name: 5 if h.is_required else h.default for h in fields}
  required = {h.name: 5 for h in fields if h.is_required}
  assert factory(**required).rule == rule(**values)
  assert factory(**values).rule == rule(**values)
  parameters = inspect.signature(factory).parameters
  assert list(parameters) == [*values, "options"]
  words = " ".join(inspect.getdoc(factory.__init__).split())
  assert all(f"{h.name}: {h.meaning}" in words for h in fields)
  doc = inspect.getdoc(factory) or ""
  assert all(signal in doc for signal in rule.signals)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_that_weighs_clients_uses_their_weights(name):
  rule_class = algorithms.get(name).build.rule
  fixed = {"fedmgda": {"epsilon": 1.0, "normalize": False}}.get(name, {})
  needed = {
    h.name: 10 for h in declared.fields_of(rule_class).values() if h.is_required
  }
  rule = rule_class(**fixed, **needed)
  weighted = cohorts.random_for(rule, 4, seed=3)
  ones = np.ones(4)
  uniform = weighted._replace(weight=ones / 4, num_examples=ones)
  one, other = (cohorts.coefficients(rule, c) for c in (uniform, weighted))
  is_same = np.allclose(one, other, rtol=1e-6, atol=0)
  assert is_same != methods.method(name).weighs_clients


@pytest.mark.parametrize("name", NAMES)
def test_a_method_names_its_paper(name):
  paper = methods.reference(name)
  authors, _, title = paper.partition(', "')
  assert authors[0].isupper()
  assert title.count('"') == 1
  assert "\n" not in paper
