"""Tests that a fork after a computation gets an error instead of hanging."""

import json
import subprocess

import pytest

from tests import source_tree

pytestmark = pytest.mark.program

PROGRAM = """
import concurrent.futures, json, os, select, weakref
import numpy as np
import tensorflow_federated as tff
from tff_fair import runtime

@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def mean(values):
  return tff.federated_mean(values)

def in_a_child(work):
  reading, writing = os.pipe()
  child = os.fork()
  if child == 0:
    try:
      os.write(writing, str(work()).encode())
    except BaseException as error:
      os.write(writing, str(error).encode())
    os._exit(0)
  os.close(writing)
  with open(reading, "rb") as answers:
    if not select.select([answers], [], [], 40)[0]:
      os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    return f"status {status}: {answers.read().decode()}"

runtime.use_local()
answers = {"before": float(mean([1.0, 3.0]))}
kept = weakref.ref(tff.framework.get_context_stack().current)
answers["computes"] = in_a_child(lambda: mean([1.0, 2.0]))
answers["connects"] = in_a_child(runtime.use_local)
# Where the thread that forks computes elsewhere, too.
with concurrent.futures.ThreadPoolExecutor(1) as pool:
  found = pool.submit(in_a_child, lambda: kept() is not None)
answers["keeps its context"] = found.result()
answers["after"] = float(mean([3.0, 5.0]))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(warm_python):
  program = subprocess.run(
    [warm_python, "-c", PROGRAM],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    timeout=120,
    check=True,
  )
  return json.loads(program.stdout)


def test_the_parent_computes_on(answers):
  assert (answers["before"], answers["after"]) == (2, 4)


@pytest.mark.parametrize("work", ["computes", "connects"])
def test_a_forked_child_says_what_to_do(answers, work):
  assert answers[work].startswith("status 0: ")
  assert "forked from" in answers[work]


def test_a_forked_child_keeps_its_parents_context(answers):
  assert answers["keeps its context"] == "status 0: True"
