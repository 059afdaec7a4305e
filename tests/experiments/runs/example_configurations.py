"""Configurations of runs, made without running them."""

import json

from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration

SPEC = RunSpec(
  algorithm="qfedavg",
  hparams={"q": 0.5},
  task_options={"partition": "dirichlet", "concentration": 0.5},
  clients_per_round=(3, 7),
  seed=4,
)
ASKED_LITTLE = RunSpec(seed=4)


def build(spec, clients_per_round=10, aggregation="streaming", **kwargs):
  config = configuration.describe_run(
    spec,
    clients_per_round=clients_per_round,
    aggregation=aggregation,
    description="some data",
    **kwargs,
  )
  return json.loads(json.dumps(config))
