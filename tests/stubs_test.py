"""Tests of the stubs: builders and factories have real signatures."""

import ast
import subprocess
import sys
import textwrap

import pytest

import tff_fair
from scripts import write_stubs
from tests import source_tree

pytestmark = pytest.mark.tff

_PROGRAM = """
import tensorflow_federated as tff
import tff_fair
from tff_fair import aggregators, algorithms

sgd = tff.learning.optimizers.build_sgdm(0.1)

def model_fn() -> tff.learning.models.VariableModel:
  raise NotImplementedError

algorithms.build_fedfv(model_fn, client_optimizer=sgd, alpha=0.2, batch_size=4)
algorithms.build("fedfv", model_fn, client_optimizer=sgd, hparams={"tau": 1})
tff_fair.aggregators.FedMgdaPlusFactory(epsilon=0.1, aggregation="stacked")
"""
_WRONG = {
  "algorithms.build_fedfv(model_fn, client_optimizer=sgd, alpa=0.2)": "alpa",
  "algorithms.build_fedfv(model_fn, client_optimizer=sgd, tau='1')": "tau",
  "algorithms.build_fedfv(model_fn, client_optimizer=sgd, batch=4)": "batch",
  "aggregators.FedMgdaPlusFactory(epsilon='a')": "epsilon",
  "aggregators.FedMgdaPlusFactory(eps=0.1)": "eps",
}


@pytest.mark.parametrize(
  "path", write_stubs.stubs(), ids=lambda p: p.parent.name
)
def test_stubs_are_fresh(path):
  text = write_stubs.stubs()[path]
  assert ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(text))


@pytest.mark.parametrize("package", ["algorithms", "aggregators"])
def test_a_package_shows_what_its_stub_declares(package):
  stub = (write_stubs.ROOT / package / "__init__.pyi").read_text()
  declared = set()
  for node in ast.parse(stub).body:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
      declared.add(node.name)
    elif isinstance(node, ast.ImportFrom):
      declared |= {alias.asname for alias in node.names if alias.asname}
  assert declared == {*dir(getattr(tff_fair, package))}


def test_a_type_checker_knows_right_calls_from_wrong_ones(tmp_path):
  program = tmp_path / "program.py"
  program.write_text(textwrap.dedent(_PROGRAM) + "\n".join(_WRONG))
  ended = subprocess.run(
    [
      *(sys.executable, "-m", "mypy", "--no-error-summary", str(program)),
      # Do not check other packages, or the project's modules.
      *("--no-site-packages", "--follow-imports=silent"),
    ],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    text=True,
    check=False,
  )
  first = _PROGRAM.count("\n") + 1
  lines = [line for line in ended.stdout.splitlines() if ": error: " in line]
  assert len(lines) == len(_WRONG), ended.stdout
  for number, (line, word) in enumerate(
    zip(lines, _WRONG.values(), strict=True)
  ):
    assert f"program.py:{first + number}: error:" in line
    assert f'"{word}"' in line
