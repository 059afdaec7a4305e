"""Reads the imports of the project and enforces its layers."""

import graphlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests import private_names, source_tree

pytestmark = pytest.mark.pure


class Layer(NamedTuple):
  """The imports that a layer may have, besides the standard library."""

  project: tuple[str, ...] = ()
  packages: tuple[str, ...] | None = ()  # None: any that is declared.


TF = ("numpy", "tensorflow")
TFF = (*TF, "tensorflow_federated")
# Packages that experiments need; absl's flags belong to programs. A sweep
# imports scikit-learn ahead of its runs.
WITHOUT_FLAGS = (*TFF, "matplotlib", "pandas", "scipy", "sklearn", "tqdm")
# Packages for event files, for pages, and for files of data and models.
EVENTS = ("tensorboard",)
PAGES = ("jinja2", "markupsafe")
FILES = ("google", "h5py", "keras")
# Packages that only some users have, and that are imported late.
EXTRAS = ("distributed", "optuna", "submitit", "wandb")

# Values that layers exchange, and their checks.
SHARED = ("tff_fair.declared", "tff_fair.lazy", "tff_fair.types")
MACHINERY = (
  "tff_fair.runtime.mergeable_aggregate",
  "tff_fair.keras_state",
  "tff_fair.kernels",
  "tff_fair.optimizers",
  "tff_fair.privacy",
  "tff_fair.spelling",
  "tff_fair.client_works.tracing",
  "tff_fair.metrics.class_scores",
  *SHARED,
)
PARTS = (
  "tff_fair.client_works",
  "tff_fair.finalizers",
  "tff_fair.summing",
)

LAYERS = {
  "tff_fair.files": Layer(packages=("pandas",)),
  "tff_fair.spelling": Layer(),
  "tff_fair.shadowing": Layer(),
  "tff_fair.escaping": Layer(),
  "tff_fair.runtime.mergeable_aggregate": Layer(
    ("tff_fair.runtime.phases",), TFF
  ),
  "tff_fair.declared": Layer(),
  "tff_fair.notices": Layer(("tff_fair.escaping",)),
  "tff_fair.user_functions": Layer(("tff_fair.declared", "tff_fair.notices")),
  "tff_fair.metrics": Layer(
    ("tff_fair.declared", "tff_fair.kernels"), ("numpy", "scipy")
  ),
  "tff_fair.kernels": Layer(packages=TF),
  "tff_fair.client_works.tracing": Layer(packages=TF),
  # Keras comes with TensorFlow.
  "tff_fair.keras_state": Layer(packages=("keras", "tensorflow")),
  "tff_fair.types": Layer(("tff_fair.declared",), TF),
  "tff_fair.runtime.phases": Layer(packages=TFF),
  "tff_fair.runtime": Layer(
    ("tff_fair.runtime.phases", "tff_fair.lazy"),
    (*TFF, "distributed", "grpc", "psutil"),  # TFF reaches its worker by grpc.
  ),
  "tff_fair.runtime.compilation_cache": Layer(("tff_fair.runtime",), TFF),
  "tff_fair.optimizers": Layer(("tff_fair.declared", "tff_fair.lazy"), TFF),
  "tff_fair.programs": Layer(
    ("tff_fair.declared", "tff_fair.runtime.phases"), TFF
  ),
  "tff_fair.privacy": Layer(
    ("tff_fair.kernels", "tff_fair.lazy", *SHARED), (*TFF, "dp_accounting")
  ),
  **{part: Layer(MACHINERY, TFF) for part in PARTS},
  "tff_fair.evaluation": Layer(
    (
      "tff_fair.client_works",
      "tff_fair.runtime.mergeable_aggregate",
      "tff_fair.keras_state",
      "tff_fair.kernels",
      "tff_fair.runtime.phases",
      *SHARED,
    ),
    TFF,
  ),
  "tff_fair.label_correction": Layer(
    (
      "tff_fair.client_works",
      "tff_fair.runtime.mergeable_aggregate",
      "tff_fair.evaluation",
      "tff_fair.keras_state",
      "tff_fair.kernels",
      "tff_fair.optimizers",
    ),
    (*TFF, "scipy", "sklearn"),
  ),
  "tff_fair.rounds": Layer(
    (
      *MACHINERY,
      *PARTS,
      "tff_fair.runtime.phases",
      "tff_fair.lazy",
    ),
    TFF,
  ),
  "tff_fair.methods": Layer(
    (
      "tff_fair.rounds",
      "tff_fair.finalizers",
      "tff_fair.kernels",
      "tff_fair.spelling",
      "tff_fair.summing",
      "tff_fair.user_functions",
      *SHARED,
    ),
    TF,
  ),
  "tff_fair.testing": Layer(
    (
      "tff_fair.methods",
      "tff_fair.runtime",
      "tff_fair.summing",
      *SHARED,
    ),
    TFF,
  ),
  # Public packages that only list names, which `tff_fair.methods` loads.
  "tff_fair.lazy": Layer(("tff_fair.spelling",)),
  "tff_fair.aggregators": Layer(("tff_fair.methods", "tff_fair.lazy")),
  "tff_fair.algorithms": Layer(("tff_fair.methods", "tff_fair.lazy")),
  "tff_fair.experiments": Layer(
    ("tff_fair", "tasks"),
    (
      *WITHOUT_FLAGS,
      "tensorflow_probability",
      *EVENTS,
      *FILES,
      *PAGES,
      *EXTRAS,
    ),
  ),
  "tff_fair": Layer(("tff_fair",)),
  "tasks": Layer(
    (
      "tff_fair.files",
      "tff_fair.lazy",
      "tff_fair.spelling",
      "tff_fair.escaping",
      "tff_fair.declared",
      "tff_fair.keras_state",
      "tff_fair.notices",
      "tff_fair.types",
      "tff_fair.user_functions",
    ),
    None,
  ),
  "demonstrations": Layer(("tff_fair", "tasks"), WITHOUT_FLAGS),
  "binaries": Layer(("tff_fair", "tasks", "demonstrations"), None),
}

# TensorFlow Federated's private parts, and the one module that may use them.
PRIVATE_TFF = ("tensorflow_federated.proto", "tensorflow_federated.python")
TFF_ADAPTER = "tff_fair.runtime.tff_internals"

# Methods that need more of TensorFlow Federated than `compose`, and why.
METHODS_WITH_TFF = {
  "tff_fair.methods.afl": "Its process returns the mean of the weights.",
  "tff_fair.methods.fedadam": "Adam at the server is TFF's own.",
  "tff_fair.methods.fedfa": "It gives TFF's SGD a momentum.",
}


PROJECT = (*source_tree.PACKAGES, "benchmarks", "tests")


def is_within(name: str, parents: tuple[str, ...]) -> bool:
  return any(name == p or name.startswith(p + ".") for p in parents)


def layer_of(module: str) -> str:
  parts = module.split(".")
  return ".".join(parts[:2]) if parts[0] == "tff_fair" else parts[0]


def layer_violations(module: str, source: str) -> Iterator[str]:
  """Yields the imports of a module that its layer does not allow."""
  layer = layer_of(module)
  if layer not in LAYERS:
    yield f"{layer} has no layer: give it a row in the table"
    return
  allowed = LAYERS[layer]
  packages = TFF if module in METHODS_WITH_TFF else allowed.packages
  for name in source_tree.imported_names(source):
    root = name.split(".")[0]
    if root in sys.stdlib_module_names:
      continue
    if not root:
      yield f"{name}: relative"
    elif root in PROJECT:
      if not is_within(name, (layer, *allowed.project)):
        yield f"{name}: not below {layer}"
    elif packages is not None and root not in packages:
      yield f"{name}: {layer} does without it"


def private_tff_imports(module: str, source: str) -> list[str]:
  forms = "tensorflow_federated.", "tensorflow_federated import"
  if module == TFF_ADAPTER or not any(form in source for form in forms):
    return []
  names = source_tree.imported_names(source)
  return [name for name in names if is_within(name, PRIVATE_TFF)]


def test_imports_keep_to_the_layers():
  found = [
    (module, violation)
    for path in source_tree.python_files(*source_tree.PACKAGES)
    for module in [source_tree.module_name(path)]
    for violation in layer_violations(module, path.read_text())
  ]
  assert found == []


# The subpackages of `tff_fair.experiments`, from the lowest to the highest. Its
# modules are below all of them; its __init__ is above all.
EXPERIMENTS = "tff_fair.experiments"
SUBPACKAGES = (
  *("spec", "runs", "texts", "analysis", "training", "sweeps"),
  "presenting",
)


def height(module: str) -> int:
  """Returns the index of a module's subpackage; -1 if it is in none."""
  if module == EXPERIMENTS:
    return len(SUBPACKAGES)
  name = module.removeprefix(f"{EXPERIMENTS}.").split(".")[0]
  return SUBPACKAGES.index(name) if name in SUBPACKAGES else -1


def rising_imports(module: str, source: str) -> list[str]:
  """Returns the imports of a module that lead to a higher subpackage."""
  return [
    name
    for name in source_tree.imported_names(source)
    if name.startswith(f"{EXPERIMENTS}.") and height(name) > height(module)
  ]


def test_imports_of_experiments_lead_to_lower_subpackages():
  found = {
    module: rising
    for path in source_tree.python_files("tff_fair/experiments")
    for module in [source_tree.module_name(path)]
    if (rising := rising_imports(module, path.read_text()))
  }
  assert found == {}
  folders = (source_tree.ROOT / "tff_fair/experiments").glob("*/__init__.py")
  assert {path.parent.name for path in folders} == {*SUBPACKAGES}


def test_no_modules_import_each_other_in_a_circle():
  # Imports inside of functions and for type checkers count, too.
  files = source_tree.python_files(*source_tree.PACKAGES)
  sources = {source_tree.module_name(path): path.read_text() for path in files}
  imports = {
    module: {
      name if name in sources else name.rpartition(".")[0]
      for name in source_tree.imported_names(source)
    }
    & sources.keys() - {module}
    for module, source in sources.items()
  }
  graphlib.TopologicalSorter(imports).prepare()


def test_no_file_imports_private_parts_of_tff():
  found = [
    (module, name)
    for path in source_tree.python_files(*PROJECT)
    for module in [source_tree.module_name(path)]
    for name in private_tff_imports(module, path.read_text())
  ]
  assert found == []


@pytest.mark.parametrize(
  ("violations", "module", "statement"),
  [
    (rising_imports, "spec.settings", "from tff_fair.experiments import runs"),
    (rising_imports, "runs.run", "import tff_fair.experiments.training.loop"),
    (layer_violations, "kernels.simplex", "import tensorflow_federated as tff"),
    (layer_violations, "kernels.simplex", "def f():\n  import tff_fair.types"),
    (layer_violations, "methods.term", "import tensorflow_federated.learning"),
    (layer_violations, "algorithms.term", "from . import registry"),
    (layer_violations, "novelty", "import math"),
    (private_tff_imports, "types", "import tensorflow_federated.python.core"),
    (private_tff_imports, "types", "from tensorflow_federated import proto"),
  ],
)
def test_a_violation_is_seen(violations, module, statement):
  root = EXPERIMENTS if violations is rising_imports else "tff_fair"
  assert len(list(violations(f"{root}.{module}", statement))) == 1


# Uses of private attributes, whether TFF's or those of other code.

OWN_FILES = source_tree.python_files(*source_tree.PACKAGES, "benchmarks")


def test_no_file_uses_private_names_of_others():
  sources = {source_tree.module_name(p): p.read_text() for p in OWN_FILES}
  of_project = private_names.Hierarchies(sources.values())
  found = {
    module: names
    for module, source in sources.items()
    if (names := [*private_names.foreign(source, of_project)])
  }
  assert found.pop(TFF_ADAPTER)  # It still needs its exception.
  assert found == {}


def test_the_adapter_of_tff_needs_its_imports():
  path = source_tree.ROOT / f"{TFF_ADAPTER.replace('.', '/')}.py"
  names = source_tree.imported_names(path.read_text())
  found = {p for name in names for p in PRIVATE_TFF if is_within(name, (p,))}
  assert found == {"tensorflow_federated.python"}


# A class like the project's; its base is TFF's, so not in the project's files.
CLASSES = """
class Ours(tff.framework.RemoteExecutor):
  _KIND = "ours"
  def __init__(self):
    self._seen: list = []
  def _send(self):
    def later():
      return IN_METHOD
"""


def private_uses(source):
  of_project = private_names.Hierarchies([CLASSES, source])
  return list(private_names.foreign(source, of_project))


@pytest.mark.parametrize(
  "use",
  [
    "self._stub",
    "self._stub.create_value(request)",
    "tff._version",
    "getattr(self, '_stub')",
  ],
)
def test_a_use_of_a_private_name_is_seen(use):
  assert len(private_uses(CLASSES.replace("IN_METHOD", use))) == 1


def test_classes_that_name_each_other_as_base_share_their_names():
  sources = ("class A(B):\n  _a = 1", "class B(A):\n  _b = 1")
  assert private_names.Hierarchies(sources).names("A") == {"_a", "_b"}


def test_only_programs_read_the_command_line():
  found = [
    source_tree.module_name(path)
    for path in source_tree.python_files("tff_fair", "tasks")
    if re.search(r"\bsys\.argv\b|\bimport argv\b", path.read_text())
  ]
  assert found == []


@pytest.mark.parametrize("module", METHODS_WITH_TFF)
def test_only_methods_that_need_it_import_tff(module):
  path = source_tree.ROOT / f"{module.replace('.', '/')}.py"
  names = source_tree.imported_names(path.read_text())
  assert any(is_within(name, ("tensorflow_federated",)) for name in names)
