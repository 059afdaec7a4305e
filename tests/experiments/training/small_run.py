"""A run of a few seconds."""

from tff_fair.experiments import RunSpec

SMALL = RunSpec(
  task_options={"num_clients": 6, "model": "logistic_regression"},
  algorithm="fedavg",
  clients_per_round=4,
  total_rounds=3,
  rounds_per_evaluation=2,
)
