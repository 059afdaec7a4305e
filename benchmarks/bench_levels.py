"""How often fair-bench calls methods different, of thousands of pairs.

  python -m benchmarks.bench_levels --draws=20 --data_dir=data/federations

The protocol of `sweeps.bench` for its eight methods and the tables of a
calibration, with the methods in NumPy (float64), which takes a hundredth of the
time. Data, splits, first weights and settings are the bench's; the order of
examples is another. With --calibration=none, tables are as they are, and
--check=RESULTS.csv compares with what the bench found there. The results of
each federation are a file of --output_dir, as the bench's --results; those that
are there are read.
"""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from binaries import command_line
from tasks import federations
from tasks.task import Split, Task
from tff_fair.experiments.analysis import federations as analysis
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import ACCURACY, RMSE
from tff_fair.experiments.sweeps import bench
from tff_fair.files import atomic

_FLAGS = command_line.Flags()
_CALIBRATION = _FLAGS.choice(
  "calibration", "null", ["null", "power", "none"], "Which tables."
)
_FEDERATIONS = _FLAGS.names("federations", [*federations.SMALL], "Whose.")
_DATA_DIR = _FLAGS.text("data_dir", "data/federations", "Of prepared tables.")
_OUTPUT_DIR = _FLAGS.text("output_dir", "outputs/levels", "Of results.")
_DRAWS = _FLAGS.integer("draws", 1, "Draws of each federation.")
_SEEDS = _FLAGS.integer("seeds", 5, "Data seeds.")
_SHARE = _FLAGS.number("share", 0.2, "Of the clients, with power.")
_CHECK = _FLAGS.text("check", None, "Results of the bench to compare with.")
_DETECTABLE = _FLAGS.text(
  "detectable", None, "Results of the bench to plan from; nothing is computed."
)
_BATCH = 64
_LEVEL, _POWER = 0.05, 0.8
_OTHERS = len(bench.METHODS) - 1  # Compared with FedAvg.


class Data(NamedTuple):
  """One part of the clients' examples, padded: [K, n, F], [K, n, C], [K]."""

  x: np.ndarray
  y: np.ndarray
  num_examples: np.ndarray

  @property
  def mask(self) -> np.ndarray:
    """Returns which rows are examples, [K, n]."""
    return np.arange(self.x.shape[1]) < self.num_examples[:, None]


class Model(NamedTuple):
  """A linear model of classes, or of a number."""

  is_number: bool

  def residual(self, out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the gradient of an example's loss with respect to outputs."""
    if self.is_number:
      return 2 * (out - y)
    return special.softmax(out, -1) - y

  def loss(self, out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the loss of each example."""
    if self.is_number:
      return np.square(out - y)[..., 0]
    return special.logsumexp(out, -1) - (out * y).sum(-1)


def padded(split: Split, num_classes: int | None) -> Data:
  """Returns the examples of all clients, with a column of ones."""
  parts = [split.load(k) for k in range(split.num_examples.size)]
  most = max(int(split.num_examples.max()), 1)
  x = np.zeros([len(parts), most, parts[0][0].shape[-1] + 1])
  y = np.zeros([len(parts), most, num_classes or 1])
  for k, (of_client, labels) in enumerate(parts):
    n = len(labels)
    x[k, :n, :-1], x[k, :n, -1] = of_client, 1.0
    y[k, :n] = np.eye(num_classes)[labels] if num_classes else labels[:, None]
  return Data(x, y, split.num_examples)


def outputs(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
  """Returns [K, n, S, C], from x [K, n, F] and theta [K or 1, F, S, C]."""
  flat = x @ theta.reshape(*theta.shape[:2], -1)
  return flat.reshape(*flat.shape[:2], *theta.shape[2:])


def gradient(x: np.ndarray, residual: np.ndarray) -> np.ndarray:
  """Returns [K, F, S, C], the sums over examples."""
  flat = residual.reshape(*residual.shape[:2], -1)
  found = np.swapaxes(x, 1, 2) @ flat
  return found.reshape(*found.shape[:2], *residual.shape[2:])


def train_locally(
  model: Model,
  data: Data,
  order: np.ndarray,
  start: np.ndarray,
  rates: np.ndarray,
  pull: np.ndarray | float = 0.0,
  center: np.ndarray | None = None,
) -> np.ndarray:
  """Returns the weights after an epoch of SGD, [K, F, S, C]."""
  w = start.copy()
  for begin in range(0, data.x.shape[1], _BATCH):
    active = np.flatnonzero(data.num_examples > begin)
    rows = order[active, begin : begin + _BATCH]
    x = np.take_along_axis(data.x[active], rows[..., None], 1)
    y = np.take_along_axis(data.y[active], rows[..., None], 1)
    number = np.minimum(data.num_examples[active] - begin, _BATCH)
    is_row = np.arange(rows.shape[1]) < number[:, None]
    residual = model.residual(outputs(x, w[active]), y[:, :, None])
    residual *= (is_row / number[:, None])[..., None, None]
    g = gradient(x, residual)
    if center is not None:
      g += pull * (w[active] - center[active])
    w[active] -= rates * g
  return w


# Rules: from a round's signals to the step of each setting.


class Round(NamedTuple):
  """A round: clients' updates [S, K, P], and what rules know of clients."""

  update: np.ndarray
  loss: np.ndarray  # [S, K], before training.
  initial_loss: np.ndarray
  gradient_norm: np.ndarray
  weight: np.ndarray  # [K], shares of the examples.
  rates: np.ndarray  # [S]
  value: np.ndarray  # [S], of the hyperparameter.
  memory: dict[str, np.ndarray]


def _combine(c: np.ndarray, r: Round) -> np.ndarray:
  return np.einsum("sk,skp->sp", c, r.update)


def _fedavg(r: Round) -> np.ndarray:
  return _combine(np.broadcast_to(r.weight, r.loss.shape), r)


def _uniform(r: Round) -> np.ndarray:
  return r.update.mean(1)


def _qfedavg(r: Round) -> np.ndarray:
  bound, q = 1 / r.rates[:, None], r.value[:, None]
  squared = bound**2 * np.square(r.update).sum(-1)
  h = q * r.loss ** (q - 1) * squared + bound * r.loss**q
  return _combine(bound * r.loss**q / h.sum(1, keepdims=True), r)


def _term(r: Round) -> np.ndarray:
  tilted = np.log(r.weight) + r.value[:, None] * r.loss
  return _combine(special.softmax(tilted, 1), r)


def _fedfv(r: Round) -> np.ndarray:
  num_settings, m, _ = r.update.shape
  gram = r.update @ np.swapaxes(r.update, 1, 2)
  order = np.argsort(r.loss, axis=1, kind="stable")
  rank = np.argsort(order, axis=1)
  first = np.ceil((m - 1) * (1 - r.value) - 1e-9)
  keeps = rank >= first[:, None]
  a = np.broadcast_to(np.eye(m), gram.shape).copy()
  every = np.arange(num_settings)
  for target in order.T:
    column = gram[every, :, target]
    slope = np.einsum("sij,sj->si", a, column)
    own = np.arange(m) == target[:, None]
    squared = column[every, target][:, None]
    share = np.divide(slope, squared, np.zeros_like(slope), where=squared > 0)
    a[every, :, target] -= np.where((slope < 0) & ~keeps & ~own, share, 0)
  g = _combine(a.mean(1), r)
  norm = np.linalg.norm(r.update.mean(1), axis=1) / np.linalg.norm(g, axis=1)
  return g * norm[:, None]


def _fedmdfg(r: Round) -> np.ndarray:
  return np.stack([*map(_fedmdfg_of_one, r.update, r.loss)])


def _fedmdfg_of_one(update: np.ndarray, loss: np.ndarray) -> np.ndarray:
  norms = np.linalg.norm(update, axis=1)
  g = norms.mean() * update / norms[:, None]
  e = np.full(len(loss), len(loss) ** -0.5)
  unit = loss / np.linalg.norm(loss)
  hull = g
  if np.degrees(np.arccos(min(1.0, e @ unit))) > 11.25:
    h = (e @ unit) * unit - e
    hull = np.vstack([g, h / np.linalg.norm(h) @ g])
  scale = np.linalg.norm(hull, axis=1).mean()
  system = np.vstack([hull.T / scale, np.ones(len(hull))])
  share, _ = optimize.nnls(system, np.eye(len(system))[-1], maxiter=10_000)
  d = share / share.sum() @ hull
  norm = np.linalg.norm(d)
  if norm <= 1e-6 * norms.mean():
    return np.zeros_like(d)
  return d / norm * np.linalg.norm(g.mean(0))


def _adafedadam(r: Round) -> np.ndarray:
  w = special.softmax(np.log(r.weight * r.loss / r.initial_loss), axis=1)
  own_rate = np.linalg.norm(r.update, axis=2) / r.gradient_norm
  log_ratio = np.log(own_rate / r.rates[:, None])
  certainty = np.maximum(1 + (w * log_ratio).sum(1), 1e-3)[:, None]
  g = _combine(w / own_rate, r)
  beta1, beta2, memory = 0.9**certainty, 0.999**certainty, r.memory
  memory["m"] = memory.get("m", 0) * beta1 + (1 - beta1) * g
  memory["v"] = memory.get("v", 0) * beta2 + (1 - beta2) * g**2
  memory["c1"] = memory.get("c1", np.ones_like(beta1)) * beta1
  memory["c2"] = memory.get("c2", np.ones_like(beta2)) * beta2
  m, v = memory["m"] / (1 - memory["c1"]), memory["v"] / (1 - memory["c2"])
  return certainty * r.value[:, None] * m / (np.sqrt(v) + 1e-8)


RULES: dict[str, Callable[[Round], np.ndarray]] = {
  "fedavg": _fedavg,
  "fedavg:uniform": _uniform,
  "qfedavg": _qfedavg,
  "term": _term,
  "fedfv": _fedfv,
  "fedmdfg": _fedmdfg,
  "adafedadam": _adafedadam,
  "ditto": _fedavg,
}
_WITHOUT_SIGNALS = ("fedavg", "fedavg:uniform", "ditto")


def trained(
  name: str,
  settings: list[RunSpec],
  model: Model,
  data: Data,
  first: np.ndarray,
  seed: int,
) -> np.ndarray:
  """Returns the weights of each client after the last round, [K, F, S, C]."""
  rates = np.array([s.client_learning_rate for s in settings])
  own = bench.HYPERPARAMETERS.get(settings[0].algorithm, ("", ()))[0]
  value = np.array([s.all_hparams[own] if own else 0.0 for s in settings])
  num_clients = data.num_examples.size
  rng = np.random.default_rng(seed)
  theta = np.repeat(first[:, None], len(settings), 1)  # [F, S, C]
  personal = np.repeat(theta[None], num_clients, 0)
  signals = functools.partial(_signals, model, data)
  initial = signals(theta)[0]
  memory: dict[str, np.ndarray] = {}
  for _ in range(settings[0].total_rounds):
    drawn = np.where(data.mask, rng.random(data.mask.shape), np.inf)
    order = np.argsort(drawn, axis=1)
    start = np.repeat(theta[None], num_clients, 0)
    scaled = rates[:, None]
    after = train_locally(model, data, order, start, scaled)
    if name == "ditto":
      personal = train_locally(
        model, data, order, personal, scaled, value[:, None], start
      )
    loss, norm = initial, initial
    if name not in _WITHOUT_SIGNALS:
      loss, norm = signals(theta)
    update = np.moveaxis(start - after, 2, 0).reshape(
      len(settings), num_clients, -1
    )
    step = RULES[name](
      Round(
        update,
        loss,
        initial,
        norm,
        data.num_examples / data.num_examples.sum(),
        rates,
        value,
        memory,
      )
    )
    of_settings = step.reshape(len(settings), *first.shape)
    theta = theta - np.moveaxis(of_settings, 0, 1)
  return personal if name == "ditto" else theta[None]


def _signals(
  model: Model, data: Data, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the clients' losses and the norms of their gradients, [S, K]."""
  out, y = outputs(data.x, theta[None]), data.y[:, :, None]
  share = (data.mask / data.num_examples[:, None])[..., None]
  loss = (model.loss(out, y) * share).sum(1)
  g = gradient(data.x, model.residual(out, y) * share[..., None])
  return loss.T, np.sqrt(np.square(g).sum((1, 3))).T


# Results.


def scores(name: str, data: Data, out: np.ndarray) -> np.ndarray:
  """Returns the score of each client and setting, [K, S]."""
  mask = data.mask[..., None]
  number = data.num_examples[:, None]
  if name == RMSE.name:
    squared = np.square(out - data.y[:, :, None])[..., 0] * mask
    return np.sqrt(squared.sum(1) / number)
  label = data.y.argmax(-1)
  if name == ACCURACY.name:
    hits = (out.argmax(-1) == label[..., None]) & mask
    return hits.sum(1) / number
  assert name == "auc"
  found = np.full([len(out), out.shape[2]], np.nan)
  for k, n in enumerate(data.num_examples):
    positive = label[k, :n] == 1
    pairs = positive.sum() * (~positive).sum()
    if pairs:
      ranks = stats.rankdata(out[k, :n, :, 1] - out[k, :n, :, 0], axis=0)
      least = positive.sum() * (positive.sum() + 1) / 2
      found[k] = (ranks[positive].sum(0) - least) / pairs
  return found


def of_seed(
  table: bench.Table, seed: int, known: dict[object, np.ndarray]
) -> list[pd.DataFrame]:
  """Returns the results of all methods with a data seed."""
  shared = table.spec().replace(seed=seed)
  task: Task = task_loading.load(shared)
  score, is_number = table.score, shared.task_options["kind"] == "number"
  num_classes = None if is_number else task.num_classes
  assert task.validation is not None
  train, validation, test = (
    padded(part, num_classes)
    for part in (task.train, task.validation, task.test)
  )
  key = train.x.shape[2], train.y.shape[2], seed
  if key not in known:
    kernel, bias = task.keras_model_fn().get_weights()
    known[key] = np.vstack([kernel, bias]).astype(np.float64)
  model, found = Model(is_number), []
  for method in table.bench.swept:
    tried = bench.settings(method, shared, table.bench.tries)
    name = tried[0].algorithm
    if tried[0].client_weighting == "uniform" and name == "fedavg":
      name = "fedavg:uniform"
    theta = trained(name, tried, model, train, known[key], seed)
    results = {
      prefix: scores(score.name, data, outputs(data.x, theta))
      for prefix, data in (("", test), ("validation_", validation))
    }
    rows = pd.DataFrame(
      {
        "setting": np.tile(np.arange(len(tried)), test.num_examples.size),
        "client": np.repeat(task.client_names, len(tried)),
        "num_examples": np.repeat(test.num_examples, len(tried)),
        **{f"{p}{score.name}": v.ravel() for p, v in results.items()},
      }
    )
    about = {"federation": table.name, "score": score.name, "seed": seed}
    chosen = analysis.chosen_rows(rows, score)
    found.append(chosen.assign(method=method.name, **about))
  return found


def summary(found: pd.DataFrame) -> str:
  """Returns how often methods are called different from FedAvg, and covered.

  Methods differ where clients are alike, too: some converge slower. So the
  level of intervals is that of their coverage: how often one misses the mean
  difference over the draws of the federation.
  """
  found = found.assign(group=found["federation"].str.split("-").str[0])
  compared = pd.DataFrame(
    {
      "federation": str(group),
      "method": result.method,
      "measure": result.column,
      "difference": result.difference,
      "improvement": result.gain,
      "gain": result.verdict == "gain",
      "loss": result.verdict == "loss",
      "uncorrected": result.difference.p_value < _LEVEL,
    }
    for group, rows in found.groupby("group", sort=False)
    for result in analysis.compare(rows, analysis.FEDAVG)
  )
  compared["missed"] = compared.groupby(["federation", "method", "measure"])[
    "difference"
  ].transform(lambda differences: _missed(differences).astype(float))
  shown = ["uncorrected", "gain", "loss", "missed"]
  lines = []
  for keys in (["measure"], ["measure", "federation"], ["measure", "method"]):
    table = compared.groupby(keys, sort=False)[shown].mean().mul(100).round(1)
    table.insert(0, "pairs", compared.groupby(keys, sort=False).size())
    lines.append(table.to_string())
  for column in ("improvement", "gain"):
    table = compared[compared["measure"] == "worst_10"].pivot_table(
      index="federation", columns="method", values=column, sort=False
    )
    lines.append(f"Worst 10 %, mean {column}:\n{table.round(2).to_string()}")
  return "\n\n".join(lines)


def _missed(differences: pd.Series) -> np.ndarray:
  """Returns which intervals miss the mean of all estimates."""
  estimates = np.array([d.estimate for d in differences])
  if len(estimates) < 2:
    return np.full(len(estimates), np.nan)
  # The variance of such a residual is (n - 1) / n of the estimate's.
  n = len(estimates)
  residuals = (estimates - estimates.mean()) * np.sqrt(n / (n - 1))
  return np.array(
    [
      dataclasses.replace(d, estimate=residual).p_value < _LEVEL
      for d, residual in zip(differences, residuals, strict=True)
    ]
  )


def detectable(
  difference: Difference, num_seeds: int, num_methods: int, draws: int = 20_000
) -> float:
  """Returns which true difference would be called clear in 80 %.

  Estimates are normal around it with the variance that this difference has
  with so many seeds, whose parts are estimated with their degrees of freedom.

  Args:
    difference: One that was found.
    num_seeds: Of the comparison to plan.
    num_methods: As many are compared, of which one differs: Holm's factor.
    draws: Of the simulation.
  """
  rng, level = np.random.default_rng(0), _LEVEL / num_methods
  variance, squared = 0.0, np.zeros(draws)
  for part in difference.parts:
    of_seeds = part.freedom == difference.num_seeds - 1
    freedom = num_seeds - 1 if of_seeds else part.freedom
    share = difference.num_seeds / num_seeds if of_seeds else 1.0
    variance += share * part.variance
    estimate = rng.chisquare(freedom, draws) / freedom * share * part.variance
    squared += stats.t.ppf(1 - level / 2, freedom) ** 2 * estimate
  noise = rng.normal(0, np.sqrt(variance), draws)
  return float(np.quantile(np.sqrt(squared) - noise, _POWER))


def detectable_table(found: pd.DataFrame) -> str:
  """Returns, by federation, the detectable differences in the worst 10 %."""
  rows = []
  for result in analysis.compare(found, analysis.BETTER, columns=["worst_10"]):
    if result.difference.parts:
      rows.append(
        {
          "federation": result.federation,
          "score": result.score,
          "seen": abs(result.gain),
          **{
            f"{seeds} seeds": detectable(result.difference, seeds, _OTHERS)
            for seeds in (3, 5, 10, 30)
          },
        }
      )
  by_federation = pd.DataFrame(rows).groupby(
    ["federation", "score"], sort=False
  )
  return by_federation.median().round(3).to_string()


def agreement(found: pd.DataFrame, results: pathlib.Path) -> str:
  """Returns how the results differ from those of the bench."""
  keys = ["federation", "method", "seed", "client"]
  both = found.merge(pd.read_csv(results), on=keys, suffixes=("", "_bench"))
  gap = (both["score_worst_10"] - both["score_worst_10_bench"]).abs()
  both["equal"] = gap < 1e-4
  both["setting"] = both["setting_worst_10"] == both["setting_worst_10_bench"]
  by = both.groupby(["federation", "method"], sort=False)[["equal", "setting"]]
  return by.mean().assign(rows=by.size()).to_string()


def main() -> None:
  """Computes what is not there, and shows how often methods are different."""
  if _DETECTABLE.value is not None:
    print(detectable_table(pd.read_csv(_DETECTABLE.value)))
    return
  folder = pathlib.Path(_OUTPUT_DIR.value)
  folder.mkdir(parents=True, exist_ok=True)
  kind = None if _CALIBRATION.value == "none" else _CALIBRATION.value
  asked = bench.Bench(
    folder=folder,
    data_dir=pathlib.Path(_DATA_DIR.value),
    federations=tuple(_FEDERATIONS.value),
    seeds=tuple(range(_SEEDS.value)),
    calibration=kind,
    copies=_DRAWS.value,
    share=_SHARE.value,
  )
  asked.record()
  known: dict[object, np.ndarray] = {}
  found = []
  # All federations' first draws, then the second ones.
  for table in sorted(asked.tables(), key=lambda table: table.draw):
    for seed in asked.seeds:
      path = folder / f"{table.name}-seed-{seed}.csv"
      if not path.exists():
        with np.errstate(all="ignore"):  # A setting that diverges.
          rows = pd.concat(of_seed(table, seed, known))
        atomic.write(path, rows.to_csv(index=False, lineterminator="\n"))
        print(table.name, seed, f"{time.process_time():.0f} s", flush=True)
      found.append(pd.read_csv(path))
  results = pd.concat(found, ignore_index=True)
  if _CHECK.value is None:
    print(summary(results))
  else:
    print(agreement(results, pathlib.Path(_CHECK.value)))


PROGRAM = _FLAGS.program(main, __doc__, "Levels: for whom, and how many.")


if __name__ == "__main__":
  PROGRAM.run()
