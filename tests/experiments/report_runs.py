"""Makes run folders by hand, with everything that a report shows."""

import json

import numpy as np
import pandas as pd

from tests.experiments import run_folders
from tff_fair.experiments.analysis import joining_gains
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec.scores import ACCURACY

LARGEST_ERROR = 80.0  # The largest error of a client in a regression.


def make(
  path,
  *,
  seed=0,
  algorithm="fedavg",
  skill=0.0,
  num_clients=12,
  num_rounds=20,
  rounds_per_evaluation=1,
  num_classes=4,
  extras=True,
  is_finished=True,
  score=ACCURACY,
  **flags,
):
  """Writes a run whose scores improve with rounds and with `skill`."""
  generator = np.random.default_rng([seed, int(1000 * (skill + 1))])
  talents = generator.normal(
    0.6 + 0.2 * skill, 0.15 - 0.08 * skill, num_clients
  )
  rounds = range(rounds_per_evaluation, num_rounds + 1, rounds_per_evaluation)
  evaluations = []
  for round_num in rounds:
    learned = talents * (1 - np.exp(-6 * round_num / num_rounds))
    noisy = learned + generator.normal(0, 0.01, num_clients)
    shares = np.clip(noisy, 0, 1).round(6)
    values = shares if score is ACCURACY else LARGEST_ERROR * (1 - shares)
    evaluations.append((round_num, values.tolist()))
  run_folders.make(
    path,
    evaluations,
    is_finished=is_finished,
    seed=seed,
    algorithm=algorithm,
    total_rounds=num_rounds,
    score=score,
    **flags,
  )
  pd.DataFrame({"round": range(1, num_rounds + 1)}).to_csv(
    path / "metrics.csv", index=False
  )
  if extras:
    _write_extras(path, generator, num_clients, num_rounds, num_classes, skill)
  _edit_config(path, algorithm, seed)
  _write_clients(path, evaluations[-1][1], score)
  if extras and is_finished:
    _write_joining(path, score)
  return path


def make_methods(folder, skills, *, seeds=2, **settings):
  """Writes runs of several methods and seeds to FOLDER/METHOD-SEED."""
  for algorithm, skill in skills.items():
    for seed in range(seeds):
      make(
        folder / f"{algorithm}-{seed}",
        algorithm=algorithm,
        seed=seed,
        skill=skill,
        **settings,
      )


def _edit_config(path, algorithm, seed):
  config = json.loads((path / "config.json").read_text())
  config["command"]["line"] = f"train.py --algorithm={algorithm} --seed={seed}"
  config["versions"] = {"python": "3.11.7", "tensorflow-federated": "0.87.0"}
  (path / "config.json").write_text(json.dumps(config))


def _write_clients(path, values, score):
  table = pd.DataFrame({"client_id": range(len(values))})
  table["client"] = [f"client_{k:02}" for k in table["client_id"]]
  table[f"test_{score.name}"] = values
  table.to_csv(path / "clients.csv", index=False)


def _write_joining(path, score):
  """Writes scores by which every second client gains from the federation."""
  table = pd.read_csv(path / "clients.csv")
  gains = np.where(table["client_id"] % 2, 0.1, -0.02)
  sign = 1 if score.higher_is_better else -1
  table[f"local_{score.name}"] = table[f"test_{score.name}"] - sign * gains
  table[f"pooled_{score.name}"] = table[f"test_{score.name}"]
  table[f"finetuned_{score.name}"] = table[f"test_{score.name}"]
  table["gain"] = gains
  table["gain_low"], table["gain_high"] = gains - 0.05, gains + 0.05
  table["gain_p_value"] = np.where(gains > 0, 0.01, 1.0)
  table.to_csv(path / "clients.csv", index=False)
  summary = json.loads((path / "summary.json").read_text())
  summary[summaries.JOINING] = joining_gains.of_clients(table, score)
  (path / "summary.json").write_text(json.dumps(summary))


def _write_extras(path, generator, num_clients, num_rounds, num_classes, skill):
  size = max(1, num_clients // 3)
  rounds = np.arange(1, num_rounds + 1)
  cohorts = np.concatenate(
    [generator.permutation(num_clients)[:size] for _ in rounds]
  )
  coefficients = generator.normal(
    1 / size, 0.4 * abs(skill) / size, cohorts.size
  )
  pd.DataFrame(
    {
      "round": np.repeat(rounds, size),
      "client_id": cohorts,
      "coefficient": coefficients,
      "loss_before": 1 + cohorts / num_clients,
      "loss_after": 0.5,
      "loss": None,
      "excluded": None,
    }
  ).to_csv(path / "cohorts.csv", index=False)
  pd.DataFrame(
    {
      "round": rounds,
      "num_clients": size,
      "bytes_down": size * 250_000,
      "bytes_up": size * 250_000 * (1 + (skill > 0.5)),
      "local_operations": size * 40_000_000,
    }
  ).to_csv(path / "costs.csv", index=False)
  share = np.clip(generator.normal(0.6 + 0.2 * skill, 0.1, num_rounds), 0, 1)
  pd.DataFrame(
    {
      "round": rounds,
      "improved_share": share,
      "aggregator/direction_norm": 3.0 / rounds,
      "aggregator/pareto_stationarity": 1.0 / rounds,
    }
  ).to_csv(path / "metrics.csv", index=False)
  pd.DataFrame(
    {"round": rounds, "round_seconds": 0.5, "evaluation_seconds": 0.1}
  ).to_csv(path / "timing.csv", index=False)
  mixture = generator.dirichlet([0.3] * num_classes, num_clients)
  sizes = generator.integers(20, 200, (num_clients, 1))
  labels = pd.DataFrame(np.round(mixture * sizes).astype(int))
  labels.insert(0, "client_id", range(num_clients))
  labels.to_csv(path / "labels.csv", index=False)
