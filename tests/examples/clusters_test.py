"""Tests of the files that start trainings on clusters."""

import ast
import signal

import pytest
import yaml
from absl import flags
from absl.testing import flagsaver
from distributed.cli import dask_scheduler, dask_worker

from binaries.flags import run_flags
from tests import code_blocks, source_tree

pytestmark = pytest.mark.pure

MANIFEST = source_tree.ROOT / "examples" / "kubernetes.yaml"
PAGE = source_tree.ROOT / "docs" / "scaling.md"


def slurm_cluster(**options):
  """Returns a Slurm cluster; undoes the import's change of Ctrl-C's handler."""
  handler = signal.getsignal(signal.SIGINT)
  from dask_jobqueue.slurm import SLURMCluster  # noqa: PLC0415

  signal.signal(signal.SIGINT, handler)
  return SLURMCluster(**options)


@pytest.fixture(scope="module")
def parts():
  """Returns the parts of the manifest, by kind and name."""
  found = [*yaml.safe_load_all(MANIFEST.read_text())]
  by_name = {(p["kind"], p["metadata"]["name"]): p for p in found}
  assert len(by_name) == len(found)
  return by_name


def pod(part):
  return part["spec"]["template"]


def container(part):
  (found,) = pod(part)["spec"]["containers"]
  return found


def test_dask_takes_the_commands_of_the_manifest(parts):
  scheduler = container(parts["Deployment", "tff-fair-scheduler"])
  worker = container(parts["Deployment", "tff-fair-worker"])
  for program, name, given in (
    (dask_scheduler.main, "scheduler", scheduler["command"]),
    (dask_worker.main, "worker", worker["command"]),
  ):
    dask, command, *words = given
    assert (dask, command) == ("dask", name)
    program.make_context(name, words)  # Refuses unknown options.


def test_all_find_the_scheduler(parts):
  (port,) = parts["Service", "tff-fair-scheduler"]["spec"]["ports"]
  address = f"tcp://tff-fair-scheduler:{port['port']}"
  scheduler = container(parts["Deployment", "tff-fair-scheduler"])
  assert scheduler["ports"] == [{"containerPort": port["port"]}]
  assert f"--port={port['port']}" in scheduler["command"]
  worker = container(parts["Deployment", "tff-fair-worker"])
  assert address in worker["command"]
  program = container(parts["Job", "tff-fair-training"])
  assert f"--scheduler={address}" in program["command"]
  selector = parts["Service", "tff-fair-scheduler"]["spec"]["selector"]
  template = pod(parts["Deployment", "tff-fair-scheduler"])
  assert selector == template["metadata"]["labels"]


def test_the_program_takes_its_flags(parts):
  python, module, name, *words = container(parts["Job", "tff-fair-training"])[
    "command"
  ]
  assert [python, module, name] == ["python", "-m", "binaries.train"]
  with flagsaver.flagsaver():
    assert flags.FLAGS([name, *words]) == [name]
    assert run_flags.spec().clients_per_round == 100
    assert flags.FLAGS["engine"].value == "dask"


def test_volumes_are_claimed_and_mounted(parts):
  template = pod(parts["Job", "tff-fair-training"])["spec"]
  (volume,) = template["volumes"]
  (mount,) = template["containers"][0]["volumeMounts"]
  claim = volume["persistentVolumeClaim"]["claimName"]
  assert ("PersistentVolumeClaim", claim) in parts
  assert mount["name"] == volume["name"]
  command = template["containers"][0]["command"]
  assert any(
    w.startswith(f"--output_dir={mount['mountPath']}") for w in command
  )


def test_only_these_pods_reach_each_other(parts):
  policy = parts["NetworkPolicy", "tff-fair"]["spec"]
  labels = policy["podSelector"]["matchLabels"]
  (rule,) = policy["ingress"]
  assert rule == {"from": [{"podSelector": {"matchLabels": labels}}]}
  for (kind, _), part in parts.items():
    if kind in ("Deployment", "Job"):
      assert labels.items() <= pod(part)["metadata"]["labels"].items()


def slurm_settings():
  """Returns the arguments of `SLURMCluster` in the script on the docs page."""
  (code,) = (
    block.code
    for block in code_blocks.read(PAGE)
    if block.kind == code_blocks.PYTHON and "SLURMCluster" in block.code
  )
  (call,) = (
    node
    for node in ast.walk(ast.parse(code))
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Attribute)
    and node.func.attr == "SLURMCluster"
  )
  return {word.arg: ast.literal_eval(word.value) for word in call.keywords}


def test_slurm_gets_a_job_that_starts_a_worker():
  with slurm_cluster(**slurm_settings()) as cluster:
    script = cluster.job_script()
    address = cluster.scheduler_address
  assert script.startswith("#!/usr/bin/env bash")
  assert "#SBATCH -p compute" in script
  assert "#SBATCH --mem=4G" in script
  command = script.splitlines()[-1]
  _, worker, words = command.partition("distributed.cli.dask_worker ")
  assert worker
  context = dask_worker.main.make_context("worker", words.split())
  assert context.params["scheduler"] == address
  assert context.params["nthreads"] == 1
