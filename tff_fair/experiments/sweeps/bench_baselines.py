"""Trains fair-bench's baselines: fine-tuned FedAvg, local and pooled models.

A run of FedAvg, at the setting selected on its validation rows, computes all
three: each client fine-tunes the final model for up to five epochs; each client
trains a model without the others; and one model trains on the rows of all
clients. The number of epochs or rounds of each model, and the learning rates of
the clients' own models, are selected without test rows.
"""

import dataclasses
import pathlib
import tempfile

import pandas as pd
import tqdm

from tff_fair.experiments.analysis import federations as analysis
from tff_fair.experiments.sweeps import bench
from tff_fair.files import atomic

_EPOCHS = 5
# The baselines' names in results, by the prefix of their column of scores.
_NAMES = {
  "finetuned_": "FedAvg, fine-tuned",
  "local_": "Alone",
  "pooled_": "Pooled",
}


@dataclasses.dataclass(frozen=True)
class Baselines:
  """The baselines for the federation and data seed of `item`, FedAvg's item."""

  item: bench.Item

  @property
  def path(self) -> pathlib.Path:
    """The file of the results, with a row for each baseline and client."""
    name = self.item.path.name
    return self.item.path.parent.with_name("baselines") / name

  @property
  def is_done(self) -> bool:
    """Whether the file exists."""
    return self.path.exists()

  def train(self) -> None:
    """Trains the baselines, once for each selected setting of FedAvg."""
    from tff_fair.experiments.training import execution  # noqa: PLC0415

    table, score = self.item.table, self.item.table.score
    chosen = analysis.chosen_rows(bench.read_results(self.item), score)
    shared = table.spec().replace(seed=self.item.seed)
    tried = bench.settings(self.item.method, shared, table.bench.tries)
    found = [
      chosen[["client", "num_examples"]].assign(method=name)
      for name in _NAMES.values()
    ]
    runs: dict[int, pd.DataFrame] = {}
    for criterion in analysis.CRITERIA:
      setting = int(chosen[f"setting_{criterion}"].iloc[0])
      if setting not in runs:
        spec = tried[setting].replace(
          finetune_epochs=_EPOCHS, local_baseline=True, pooled_baseline=True
        )
        with tempfile.TemporaryDirectory() as folder:
          run = execution.run(
            spec, pathlib.Path(folder) / "run", progress=False
          )
          assert run.clients is not None
          runs[setting] = run.clients.set_index("client")
      clients = runs[setting].loc[chosen["client"]]
      for rows, prefix in zip(found, _NAMES, strict=True):
        rows[f"setting_{criterion}"] = setting
        column = clients[f"{prefix}{score.name}"]
        rows[f"score_{criterion}"] = column.round(6).to_numpy()
    self.path.parent.mkdir(parents=True, exist_ok=True)
    text = pd.concat(found).to_csv(index=False, lineterminator="\n")
    atomic.write(self.path, text)


def list_all(config: bench.Bench) -> list[Baselines]:
  """Returns a bench's baselines for all federations and data seeds."""
  return [
    Baselines(item)
    for item in config.items()
    if item.method.name == analysis.FEDAVG
  ]


def train_missing(config: bench.Bench) -> None:
  """Trains a bench's missing baselines; all FedAvg items must be done."""
  wanted = list_all(config)
  with tqdm.tqdm(
    total=len(wanted),
    initial=sum(one.is_done for one in wanted),
    desc="Baselines",
    unit="item",
    dynamic_ncols=True,
    disable=None,
  ) as bar:
    for one in wanted:
      if not one.is_done:
        one.train()
        bar.update()
