"""Finds built-in methods, installed packages' methods and users' rules by name.

A method's module is imported only when it is needed. A user's rule has the name
path/to/file.py:NAME or PACKAGE.MODULE:NAME; see `tff_fair.user_functions`.
Installed packages add methods by entry points of the group tff_fair.methods:

[project.entry-points."tff_fair.methods"]
maxfl_sharp = "my_package.my_module:MaxFlRule"
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib
import typing
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Unpack

from tff_fair import declared, spelling
from tff_fair.methods import method_sources

if typing.TYPE_CHECKING:
  from tff_fair import rounds, types
  from tff_fair.methods import building
  from tff_fair.summing import aggregation_kinds


@dataclasses.dataclass(frozen=True)
class Method:
  """A method's entry in the registry.

  Attributes:
    name: The name of the method; its builder is `build_<name>`.
    title: The method's name as papers write it.
    factory: The name of its aggregation factory, if it has one.
    file: The module of `tff_fair.methods` that defines the method; by default
      `name`.
    weighs_clients: Whether the method uses the clients' weights, which the
      option `client_weighting` sets.
    sends_models: Whether clients send personal models to the server, so that a
      secure sum would hide nothing.
    sends_controls: Whether clients send control variates, which reveal as much
      as personal models.
    needs_groups: Whether the data must have the group of each example.
    needs_accuracy: Whether the rule needs the clients' accuracies.
  """

  name: str
  title: str
  factory: str | None = None
  _: dataclasses.KW_ONLY
  file: str | None = None
  weighs_clients: bool = True
  sends_models: bool = False
  sends_controls: bool = False
  needs_groups: bool = False
  needs_accuracy: bool = False

  @property
  def module(self) -> str:
    """The name of the module with the method's builder and factory."""
    return f"tff_fair.methods.{self.file or self.name}"


_METHODS = (
  Method("fedavg", "FedAvg", "FedAvgFactory"),
  Method("fedavg_n", "FedAvg-n", "FedAvgNFactory"),
  Method("fedprox", "FedProx"),
  Method("fedadam", "FedAdam"),
  Method("fednova", "FedNova", "FedNovaFactory"),
  Method("qfedavg", "q-FedAvg", "QFedAvgFactory", weighs_clients=False),
  Method("afl", "AFL", "AflFactory", weighs_clients=False),
  Method("term", "TERM", "TermFactory"),
  Method("propfair", "PropFair"),
  Method("delta_fl", "Delta-FL", "DeltaFlFactory"),
  Method("gifair", "GiFair-FL", "GiFairFactory"),
  Method(
    "fedfa",
    "FedFA",
    "FedFaFactory",
    weighs_clients=False,
    needs_accuracy=True,
  ),
  Method("ditto", "Ditto", sends_models=True),
  Method("scaffold", "SCAFFOLD", sends_controls=True),
  Method("fedmgda_plus", "FedMGDA+", "FedMgdaPlusFactory"),
  Method("adafed", "AdaFed", "AdaFedFactory", weighs_clients=False),
  Method("vred", "VRed", "VRedFactory"),
  Method("semi_vred", "Semi-VRed", "SemiVRedFactory", file="vred"),
  Method("fedfv", "FedFV", "FedFvFactory", weighs_clients=False),
  Method("adafedadam", "AdaFedAdam"),
  Method("fedmgda", "FedMGDA", file="fedmgda_plus", weighs_clients=False),
  Method("mgda_prox", "MGDA-Prox", file="fedmgda_plus"),
  Method("drfl", "DRFL", "DrflFactory"),
  Method(
    "aaggff_s",
    "AAggFF-S",
    "AaggffSFactory",
    file="aaggff",
    weighs_clients=False,
  ),
  Method(
    "aaggff_d",
    "AAggFF-D",
    "AaggffDFactory",
    file="aaggff",
    weighs_clients=False,
  ),
  Method("fedmdfg", "FedMDFG", "FedMdfgFactory", weighs_clients=False),
  Method("n_accadam", "N-AccAdam", file="adafedadam"),
  Method("maxfl", "MaxFL", "MaxFlFactory", weighs_clients=False),
  Method("fedgini", "FedGini", "FedGiniFactory", weighs_clients=False),
  Method("fairfed", "FairFed", "FairFedFactory", needs_groups=True),
  Method("fedminmax", "FedMinMax", needs_groups=True),
  Method("drfa", "DRFA", "DrfaFactory", weighs_clients=False),
  Method("upgrad", "UPGrad", "UpGradFactory", weighs_clients=False),
  Method("imtl_g", "IMTL-G", "ImtlGFactory", weighs_clients=False),
  Method("nash_mtl", "Nash-MTL", "NashMtlFactory", weighs_clients=False),
  Method(
    "aligned_mtl", "Aligned-MTL", "AlignedMtlFactory", weighs_clients=False
  ),
)

METHODS: Mapping[str, Method] = MappingProxyType(
  {method.name: method for method in _METHODS}
)

# Papers may name a method by its objective.
_OBJECTIVES = {"q-FFL": "qfedavg"}


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """A method, ready to build.

  Attributes:
    build: Its builder, `build_<name>`.
    aggregations: The aggregation kinds that its rule allows, the default first.
  """

  build: building.Builder
  aggregations: tuple[aggregation_kinds.Aggregation, ...]

  @property
  def hparams(self) -> Mapping[str, Any]:
    """The defaults of the method's hyperparameters, by name."""
    return {h.name: h.default for h in self.build.hyperparameters}


def names() -> tuple[str, ...]:
  """Returns the names of all methods, installed packages' methods last."""
  return (*METHODS, *_installed_methods())


def canonical_name(name: str) -> str:
  """Returns the name of the method that a user's spelling means.

  "FedMGDA+" is fedmgda_plus, and "q-FFL" is qfedavg. Unknown names and names of
  users' methods are returned unchanged.
  """
  # A fast path, because plans of sweeps call this many times for each run.
  if name in METHODS or _code(name) is not None:
    return name
  found = spelling.resolve(name, names())
  titles = {method.title: method.name for method in _METHODS} | _OBJECTIVES
  return titles.get(spelling.resolve(found, titles), found)


def is_method(name: str) -> bool:
  """Returns whether a method exists; imports a user's method to check it."""
  try:
    method(name)
  except declared.FieldError:
    return False
  return True


def method(name: str) -> Method:
  """Returns a method's entry in the registry; imports a user's method.

  Raises:
    FieldError: If there is no method of that name, or if it is a user's method
      that cannot be used.
  """
  name = canonical_name(name)
  if name in METHODS:
    return METHODS[name]
  code = _code(name)
  if code is None:
    raise declared.FieldError("name", unknown_message(name))
  entry = Method(name, short_name(name))
  if not _user_functions().may_run(code):
    return entry
  rule = _load_user_method(code).rule
  return dataclasses.replace(
    entry, factory=rule.__name__, needs_accuracy="accuracy" in rule.signals
  )


def short_name(name: str) -> str:
  """Returns a method's name; for user code, only the part after the ":"."""
  return name.rpartition(":")[2]


def file_digest(name: str) -> str | None:
  """Returns a digest of a user's method's files; None for a built-in method.

  Raises:
    FieldError: If the file does not exist.
  """
  code = _code(name)
  return None if code is None else _user_functions().digest(code)


def is_blocked(name: str) -> bool:
  """Returns whether a method is user code that must not run at present."""
  code = _code(name)
  return code is not None and not _user_functions().may_run(code)


def _code(name: str) -> str | None:
  """Returns the name of a user's method's code; None for any other method."""
  if name in METHODS:
    return None
  return (
    name if _user_functions().is_name(name) else _installed_methods().get(name)
  )


def _user_functions() -> ModuleType:
  # Imported only here, because an aggregation factory does not need it.
  from tff_fair import user_functions  # noqa: PLC0415

  return user_functions


@functools.cache
def _installed_methods() -> Mapping[str, str]:
  """Returns the names of installed methods' code, by method name.

  Methods with the name of a built-in method are left out.
  """
  found: Mapping[str, str] = _user_functions().entry_points(
    "tff_fair.methods", "method", tuple(METHODS)
  )
  return found


def _load_user_method(code: str) -> building.Builder:
  """Imports TensorFlow and a user's method; returns the method's builder."""
  from tff_fair.methods import user_method  # noqa: PLC0415

  with _user_functions().report_errors_as("name", code):
    return user_method.load(code)


# What each `client_weighting` adds to the title of a method with weights.
_WEIGHTS: Mapping[str, str] = MappingProxyType(
  {
    "num_examples": "",
    "uniform": ", equal weights",
    "column": ", weights by column",
  }
)


def title(
  name: str, client_weighting: str = "num_examples", *, shown: str | None = None
) -> str:
  """Returns the name of a method as tables show it.

  Args:
    name: The method; an unknown name is shown unchanged.
    client_weighting: "num_examples", "uniform" or "column". The title shows it
      for a method that weights clients: "FedAvg" and "FedAvg, equal weights"
      are two methods.
    shown: A name to show instead of the one in papers.
  """
  if name in METHODS:
    entry = METHODS[name]
  elif _code(name) is not None:
    entry = Method(name, short_name(name))
  else:
    return shown or name
  found = shown or entry.title
  weights = _WEIGHTS[client_weighting] if entry.weighs_clients else ""
  return found if found.endswith(weights) else f"{found}{weights}"


def unknown_message(name: str) -> str:
  """Returns why a method's name is invalid, with a hint at valid names."""
  if _code(name) is not None:
    try:
      method(name)
    except declared.FieldError as error:
      return error.problem
  if name.endswith(".py"):
    return f"is a file; name the rule in it, as {name}:NAME."
  every = f"--list, or tff_fair.algorithms.names(), shows all {len(names())}."
  suggestion = spelling.suggest(name, names())
  known = f"{suggestion} {every}" if suggestion else every
  return f"unknown algorithm {name!r}; {known}"


def hyperparameters(name: str) -> Mapping[str, declared.Field]:
  """Returns a method's hyperparameters by their names.

  This imports TensorFlow only for a user's method. The result is empty for a
  user's method that must not run at present.

  Raises:
    FieldError: If there is no method of that name.
  """
  entry = method(name)
  found: tuple[declared.Field, ...] = ()
  if entry.name in METHODS:
    found = method_sources.hyperparameters(entry.module, f"build_{entry.name}")
  elif (code := _code(entry.name)) and _user_functions().may_run(code):
    found = _load_user_method(code).hyperparameters
  return MappingProxyType({h.name: h for h in found})


def reference(name: str) -> str:
  """Returns the citation of a method's paper, without importing TensorFlow.

  For a user's method, this is the second paragraph of its file's docstring, or
  the first if there is no second; without a docstring, the method's short name.

  Raises:
    FieldError: If there is no method of that name.
  """
  name = canonical_name(name)
  code = _code(name)
  if code is None:
    return method_sources.reference(method(name).module)
  text = ""
  with contextlib.suppress(declared.FieldError, OSError, SyntaxError):
    source = _user_functions().file_of(code).read_text("utf-8")
    text = ast.get_docstring(ast.parse(source)) or ""
  paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
  found = filter(None, paragraphs[1:2] + paragraphs[:1])
  return next(found, short_name(code))


def get(name: str) -> Algorithm:
  """Returns a method, ready to build; imports its module and TensorFlow.

  Raises:
    FieldError: If there is no method of that name.
  """
  from tff_fair import summing  # noqa: PLC0415

  entry = method(name)
  code = _code(entry.name)
  build_method = (
    getattr(importlib.import_module(entry.module), f"build_{entry.name}")
    if code is None
    else _load_user_method(code)
  )
  found = summing.supported_aggregations(build_method.rule)
  if entry.sends_models or entry.sends_controls:
    found = tuple(way for way in found if way != summing.SECURE)
  return Algorithm(build_method, found)


def build(
  name: str,
  model_fn: rounds.ModelFn,
  *,
  client_optimizer: rounds.Optimizer,
  hparams: Mapping[str, Any] | None = None,
  **options: Unpack[rounds.BuildOptions],
) -> rounds.LearningProcess:
  """Builds the learning process of a method.

  Args:
    name: One of `names()`; or a name as papers write it, such as "FedMGDA+"; or
      your own rule, as path/to/file.py:NAME or PACKAGE.MODULE:NAME.
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    client_optimizer: The optimizer of the clients' local steps.
    hparams: Values of the method's hyperparameters by name; those left out have
      their defaults.
    **options: Options that hold for every method: `server_optimizer`,
      `server_learning_rate_decay`, `server_learning_rate_decay_kind`,
      `client_weighting`, `batch_size`, `local_epochs` (a number, or the bounds
      of the number that each client draws, seeded by `local_epochs_seed`) or
      `local_steps` (likewise), `num_clients`, `aggregation`, `sum_factory`,
      `secure_bound`, `dp`, `loss_at`, `loss_reference`, `shuffle_seed`,
      `proximal_mu`, `learning_rate_decay`, `learning_rate_decay_kind`,
      `learning_rate_decay_rounds`, `personal_lam`, `keeps_optimizer_state`,
      `local_correction`, `num_participants`, `group_shares`, `attack`,
      `defence`, `certificate`, `tape`; see `tff_fair.algorithms.compose`.

  Returns:
    A `tff.learning.templates.LearningProcess`; see
    `tff_fair.algorithms.compose`.

  Raises:
    TypeError: If an argument has the wrong type.
    FieldError: If the name or a hyperparameter is unknown, or a value is wrong;
      a `ValueError`.
  """
  algorithm, hparams = get(name), dict(hparams or {})
  _check_names(name, algorithm, hparams)
  return algorithm.build(
    model_fn, client_optimizer=client_optimizer, **hparams, **options
  )


def make_rule(
  name: str, hparams: Mapping[str, Any] | None = None, *, num_clients: int
) -> types.Rule:
  """Returns the rule of a method.

  Args:
    name: As for `build`.
    hparams: As for `build`. Those that affect only the clients' work or the
      server's step do not change the rule.
    num_clients: Size of the population.

  Raises:
    TypeError: If a hyperparameter has the wrong type.
    FieldError: If the name or a hyperparameter is unknown, or a value is wrong.
  """
  algorithm, hparams = get(name), dict(hparams or {})
  _check_names(name, algorithm, hparams)
  return algorithm.build.make_rule({**hparams, "num_clients": num_clients})


def _check_names(
  name: str, algorithm: Algorithm, hparams: Mapping[str, Any]
) -> None:
  """Raises `FieldError` if `hparams` has a name that the method lacks."""
  if unknown := [key for key in hparams if key not in algorithm.hparams]:
    advice = spelling.advice(
      unknown[0], algorithm.hparams, "hyperparameters", always_all=True
    )
    raise declared.FieldError(
      unknown[0], f"unknown hyperparameter {unknown[0]!r} of {name}; {advice}"
    )
