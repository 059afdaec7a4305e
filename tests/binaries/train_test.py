"""Tests of the whole training program, in this process."""

import dataclasses
import errno
import json
import os
import pathlib
import re
import shutil
import sys
from unittest import mock

import pandas as pd
import pytest
import tensorflow as tf

import tasks
import tff_fair
from binaries.flags import run_flags
from tasks import digests
from tests.binaries import in_process
from tff_fair import experiments
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import resume, scoring

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

SMALL = (
  "--task=digits",
  "--task_option=num_clients=6",
  "--task_option=model=logistic_regression",
  "--algorithm=fedavg",
  "--clients_per_round=4",
  "--total_rounds=3",
  "--rounds_per_evaluation=2",
)
NO_SPACE = "No space left on device"
EQUAL_FOLDER = "run-fedavg-uniform"
NEAR_PLAIN = (
  "In no round did a client's coefficient differ from its plain weight"
)


def check_refused(outcome, beginning, *words):
  line = outcome.refusal
  assert line.startswith(f"train: {beginning}")
  assert all(word in line for word in words), line


# Keys are flags, the wrong one first; values are words of the error line.
MISTAKES = {
  "--task=heart": tasks.names(),
  "--task_option=clients=3": ["num_clients"],
  "--data_dir=absent": ["absent"],
  "--algorithm=fairness": ["--list", str(len(tff_fair.algorithms.names()))],
  "--hparam=q=1 --algorithm=adafed": ["gamma=1"],
  "--aggregation=streaming --algorithm=fedmgda_plus": ["stacked"],
  "--clients_per_round=31": ["1 to 30"],
  "--clients_per_round=5 --sampling=all": ["sampling=all", "30"],
  "--evaluation_clients=31": ["1 to 30"],
  "--attack=bias --attack_strength=1 --attack_share=0.99 "
  "--evaluation_clients=1": ["evaluate more"],
  "--initial_model=": ["file or folder"],
  "--output_dir=~no-such-user/run": ["~"],
  "--output_dir=/dev/null/run": ["folder"],
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.items())
def test_bad_input_is_one_line_and_leaves_nothing(program, arguments, words):
  outcome = program(*arguments.split())
  flag = arguments.split()[0]
  name, _, value = flag.partition("=")
  # Some errors begin with the whole flag, others with its name.
  is_beside = outcome.refusal.startswith(f"train: {flag}: ")
  check_refused(outcome, f"{flag if is_beside else name}: ", *words)
  assert value.partition("=")[0] in outcome.refusal
  assert os.listdir() == []


def test_a_bad_data_file_is_named(program, tmp_path):
  file = tmp_path / "emnist_all.sqlite"
  file.write_bytes(b"hello")
  outcome = program("--task=emnist_character", f"--data_dir={tmp_path}")
  check_refused(outcome, "--data_dir: ", str(file), "not a SQLite database")
  assert os.listdir() == []


def test_data_that_is_damaged_inside_leaves_nothing(program, monkeypatch):
  load = tasks.load

  def load_damaged(*args, **kwargs):
    task = load(*args, **kwargs)

    def load_client(client_id):
      if client_id == 5:
        raise tasks.DataError("data.sqlite, client 5", "is damaged.")
      return task.test.load(client_id)

    damaged = dataclasses.replace(task.test, load=load_client)
    return dataclasses.replace(task, test=damaged)

  monkeypatch.setattr(tasks, "load", load_damaged)
  # The damage shows only in the first evaluation.
  monkeypatch.setattr(scoring, "MOST_CLIENTS_TO_READ", 0)
  monkeypatch.setattr(digests, "_MOST_CLIENTS", 0)
  monkeypatch.setattr(digests, "_SAMPLED_CLIENTS", 1)
  outcome = program(*SMALL, "--rounds_per_evaluation=1")
  assert outcome.status == 2
  *_, line = outcome.stderr.splitlines()
  assert line == "train: --data_dir: data.sqlite, client 5: is damaged."
  assert os.listdir() == []


def test_a_run_leaves_its_results_and_repeats(program, monkeypatch):
  monkeypatch.setattr(sys, "argv", ["/somewhere/tff-fair-train", *SMALL])
  first = program(*SMALL)
  assert first.status == 0
  assert first.stdout.startswith("Test accuracy over 6 clients after 3 rounds")
  assert "round 2/3" in first.stderr
  assert "round 3/3" in first.stderr

  path = pathlib.Path("outputs/digits-fedavg")
  folder = run_folder.RunFolder(path)
  assert {file.name for file in path.iterdir()} == {
    *("config.json", "model.json", "summary.json", "checkpoints"),
    "checksums.json",
    *("metrics.csv", "timing.csv", "costs.csv", "cohorts.csv"),
    *("evaluations.csv", "client_evaluations.csv", "tensorboard"),
    *("clients.csv", "labels.csv", "curves.png", "accuracy_distribution.png"),
  }
  metrics = pd.read_csv(folder.metrics)
  assert metrics["round"].tolist() == [1, 2, 3]
  assert (metrics["aggregator/num_clients"] == 4).all()
  assert metrics["client_work/train/loss"].is_monotonic_decreasing
  costs = pd.read_csv(folder.costs)
  assert costs["num_clients"].tolist() == [4, 4, 4]
  assert costs["bytes_down"].tolist() == [4 * 2600] * 3
  history = pd.read_csv(folder.client_evaluations)
  assert history["round"].tolist() == [0] * 6 + [2] * 6 + [3] * 6
  assert history["client_id"].tolist() == [*range(6)] * 3

  config = json.loads(folder.config.read_text())
  assert config["command"]["line"].split() == [
    *("python", "-m", "binaries.train"),
    *SMALL,
  ]
  assert config["resolved"]["total_rounds"] == 3
  assert config["resolved"]["aggregation"] == "streaming"
  assert config["versions"].keys() >= {"python", "tensorflow-federated"}

  # The finished run is left alone; the default folder is then a new one.
  before = in_process.repeatable(path)
  refused = program(*SMALL, f"--output_dir={path}")
  check_refused(refused, f"--output_dir={path}: ", "finished")
  second = program(*SMALL)
  assert second.status == 0
  assert second.stdout == first.stdout
  assert (
    in_process.repeatable("outputs/digits-fedavg-2")
    == in_process.repeatable(path)
    == before
  )

  other = program(*SMALL, "--seed=1", "--output_dir=other")
  assert other.status == 0
  assert all(
    new != old
    for new, old in zip(
      in_process.repeatable("other").values(), before.values(), strict=True
    )
  )


@pytest.mark.parametrize(
  ("error", "problem"),
  [
    (OSError(errno.ENOSPC, NO_SPACE), f"{NO_SPACE}; make room"),
    (
      tf.errors.ResourceExhaustedError(None, None, NO_SPACE),
      f"{NO_SPACE}; make room",
    ),
    (
      OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
      "Too many open files; allow more of them (ulimit -n)",
    ),
  ],
)
def test_what_the_system_lacks_is_told_in_one_line(
  program, monkeypatch, error, problem
):
  monkeypatch.setattr(resume, "roll_back", mock.Mock(side_effect=error))
  outcome = program(*SMALL, "--output_dir=run")
  assert outcome.status == 2
  assert outcome.stderr.splitlines()[-1] == (
    f"train: --output_dir=run: {problem}. No round was complete; nothing is "
    "kept."
  )
  assert os.listdir() == []


def test_a_summary_has_statistics_of_honest_clients(program):
  outcome = program(
    *SMALL,
    "--attack=scaling",
    "--attack_share=0.4",
    "--attack_strength=-5",
    "--evaluation_clients=5",
    "--output_dir=run",
  )
  assert outcome.status == 0
  folder = run_folder.RunFolder(pathlib.Path("run"))
  clients = pd.read_csv(folder.clients)
  assert len(clients) == 5
  honest = clients[~clients["attacker"]]
  assert 3 <= len(honest) <= 4
  summary = json.loads(folder.summary.read_text())
  assert summary["num_clients"] == 5
  assert summary["honest"]["num_clients"] == len(honest)
  assert summary["honest"]["test_accuracy"] == pytest.approx(
    tff_fair.metrics.fairness_summary(honest["test_accuracy"])
  )
  assert summary["honest"]["test_loss"]["mean"] == pytest.approx(
    honest["test_loss"].mean()
  )
  text = f"Over the {len(honest)} honest clients only"
  _, _, table = outcome.stdout.partition(text)
  assert f"{100 * honest['test_accuracy'].mean():.2f}" in table


@pytest.mark.long
def test_without_flags_it_trains_a_baseline_and_says_what_was_gained(
  program, monkeypatch
):
  flags = [*SMALL, "--algorithm=vred", "--hparam=beta=1"]
  pathlib.Path("look.flags").write_text("\n".join(flags))
  monkeypatch.setattr(run_flags, "_DEFAULT_RUN", "look.flags")
  outcome = program("--output_dir=run")
  assert outcome.status == 0
  assert pd.read_csv("run-fedavg/metrics.csv")["round"].tolist() == [1, 2, 3]
  summary = json.loads(pathlib.Path("run/summary.json").read_text())
  assert summary["coefficient_change"] > 0.01
  assert NEAR_PLAIN not in outcome.stdout
  _, _, told = outcome.stdout.rpartition("\n\n")
  gain, rate = " ".join(told.split()).split(" The client_learning_rate is ")
  assert re.fullmatch(
    r"The worst 10 % of the clients get \d+ %; with the better of the "
    r"baselines, “FedAvg.*”, \d+ %; with “FedAvg.*” \d+ %\.",
    gain,
  )
  assert "baselines 0.1;" in rate
  specs = [
    experiments.open_run(name).spec for name in ("run-fedavg", EQUAL_FOLDER)
  ]
  assert [spec.client_weighting for spec in specs] == [
    *("num_examples", "uniform")
  ]
  # The existing baseline is used again.
  shutil.rmtree("run")
  again = program("--output_dir=run")
  assert again.stdout == outcome.stdout
  assert "run-fedavg" not in again.stderr


@pytest.mark.parametrize(
  ("flags", "status", "excluded", "told"),
  [
    (
      ["--client_learning_rate=3e38"],
      3,
      [True] * 3,
      "4 of 4 clients did not count in round 3 (4 not finite)",
    ),
    pytest.param(
      ["--client_learning_rate=1e37", "--batch_size=10000"],
      4,
      [False, True, True],
      "the last 2 of 3 rounds",
      marks=pytest.mark.long,
    ),
  ],
)
def test_a_run_in_which_clients_stop_counting_says_so(
  program, flags, status, excluded, told
):
  outcome = program(*SMALL, *flags)
  assert outcome.status == status
  assert told in outcome.stderr
  run = experiments.open_run("outputs/digits-fedavg")
  assert run.num_idle_rounds == sum(excluded)
  assert run.cohorts is not None
  reasons = run.cohorts.groupby("round")["excluded"]
  assert (reasons.count() == 4).tolist() == excluded
  assert set(run.cohorts["excluded"].dropna()) == {"not finite"}
  losses = run.rounds["client_work/train/loss"]
  assert losses.isna().tolist() == excluded


def test_the_catalog_names_everything(program):
  outcome = program("--list")
  assert outcome.status == 0
  lines = outcome.stdout.splitlines()
  assert max(map(len, lines)) <= 80
  entries = [line.strip() for line in lines if re.match("  [a-z]", line)]
  assert entries == [*tasks.names(), *tff_fair.algorithms.names()]
