"""Every rule, with hyperparameters that tell, and cohorts that are hard."""

from typing import Any

import numpy as np
import pytest

from tff_fair import types
from tff_fair.rules import (
  adafed,
  adafedadam,
  afl,
  delta_fl,
  fedavg,
  fedavg_n,
  fedfa,
  fedfv,
  fedmgda_plus,
  fednova,
  gifair,
  qfedavg,
  term,
  vred,
)

RULE_CLASSES: dict[str, type[types.Rule]] = {
  "fedavg": fedavg.FedAvgRule,
  "fedavg_n": fedavg_n.FedAvgNRule,
  "fednova": fednova.FedNovaRule,
  "qfedavg": qfedavg.QFedAvgRule,
  "term": term.TermRule,
  "vred": vred.VRedRule,
  "semi_vred": vred.SemiVRedRule,
  "delta_fl": delta_fl.DeltaFlRule,
  "gifair": gifair.GiFairRule,
  "afl": afl.AflRule,
  "fedfa": fedfa.FedFaRule,
  "fedmgda_plus": fedmgda_plus.FedMgdaPlusRule,
  "adafed": adafed.AdaFedRule,
  "fedfv": fedfv.FedFvRule,
  "adafedadam": adafedadam.AdaFedAdamRule,
}
POPULATION = 10
SETTINGS: list[tuple[str, dict[str, Any]]] = [
  ("fedavg", {}),
  ("fedavg_n", {}),
  ("fednova", {}),
  *[("qfedavg", {"q": q}) for q in (0, 0.125, 1, 2.5, 15)],
  *[("qfedavg", {"q": 2.5, "lipschitz": bound}) for bound in (1e-3, 1e3)],
  *[("term", {"t": t}) for t in (0, 1.0, -2, 1000, -1000)],
  *[("vred", {"beta": beta}) for beta in (0, 0.1, 50.0)],
  *[("semi_vred", {"beta": beta}) for beta in (0, 0.1, 50.0)],
  *[("delta_fl", {"alpha": alpha}) for alpha in (1e-12, 0.3, 0.5, 1)],
  *[("gifair", {"fraction": f}) for f in (0, 0.5, float(np.nextafter(1, 0)))],
  *[
    ("afl", {"num_clients": POPULATION, "lambda_learning_rate": rate})
    for rate in (0, 0.01, 1e3)
  ],
  *[("fedfa", {"b": b}) for b in (0, 0.5, 1)],
  *[
    ("fedmgda_plus", {"epsilon": epsilon, "normalize": normalize})
    for epsilon in (0, 0.1, 1)
    for normalize in (True, False)
  ],
  *[("adafed", {"gamma": gamma}) for gamma in (0, 0.5, 1.0, 10)],
  *[
    ("fedfv", {"alpha": alpha, "tau": tau, "order": order})
    for alpha, tau, order in (
      (0, 0, "loss"),
      (0.1, 0, "reverse"),
      (0.1, 0, "random"),
      (0.5, 2, "loss"),
      (0, 1, "reverse"),
      (0, 2, "random"),
      (1, 2, "loss"),
    )
  ],
  *[("adafedadam", {"alpha": alpha}) for alpha in (0, 1.0, 50.0)],
]


def label(name: str, hparams: dict[str, Any]) -> str:
  """What a setting is called among the tests."""
  return "-".join(map(str, (name, *hparams.values())))


def each_of(settings: list[tuple[str, dict[str, Any]]]) -> pytest.MarkDecorator:
  """Makes a test run with each of some settings."""
  return pytest.mark.parametrize(
    ("name", "hparams"), settings, ids=[label(*setting) for setting in settings]
  )


_ROWS = np.random.default_rng(1).normal(size=(4, 9))
_LOSS = [1, 2, 0.5, 1]
# What `cohorts.make` takes; signals left out are equal for all clients.
HARD: dict[str, dict[str, Any]] = {
  "one client": {"updates": _ROWS[:1], "loss": [0.7]},
  "identical clients": {"updates": _ROWS[[0, 0]], "loss": [0.7, 0.7]},
  "identical updates": {"updates": _ROWS[[0, 0, 1]], "loss": [0.7, 0.2, 1]},
  "opposite updates": {"updates": [_ROWS[0], -_ROWS[0]], "loss": [0.7, 0.2]},
  "all updates zero": {"updates": np.zeros([3, 9]), "loss": [0.7, 0.2, 1]},
  "one update zero": {
    "updates": _ROWS * [[1], [0], [1], [1]],
    "loss": [0.7, 0.2, 1, 2],
  },
  "more clients than weights": {
    "updates": _ROWS[:, :2],
    "loss": [0.7, 0.2, 1, 2],
  },
  "no loss": {"updates": _ROWS, "loss": [0, 0, 0, 0]},
  "one loss zero": {"updates": _ROWS, "loss": [0.7, 0, 1, 2]},
  "tiny losses": {"updates": _ROWS, "loss": [1e-30, 2e-30, 3e-30, 5e-30]},
  "huge losses": {"updates": _ROWS, "loss": [1e6, 2e6, 3e6, 5e6]},
  "tiny and huge losses": {"updates": _ROWS, "loss": [1e-30, 1, 1e6, 0.3]},
  "negative losses": {"updates": _ROWS, "loss": [-1, -2, 0.5, -1e6]},
  "one update huge": {
    "updates": _ROWS * [[1e30], [1], [1], [1]],
    "loss": _LOSS,
  },
  "one update tiny": {
    "updates": _ROWS * [[1e-30], [1], [1], [1]],
    "loss": _LOSS,
  },
  "all updates huge": {"updates": _ROWS * 1e38, "loss": _LOSS},
  "all updates tiny": {"updates": _ROWS * 1e-38, "loss": _LOSS},
  "unequal sizes": {
    "updates": _ROWS,
    "loss": _LOSS,
    "num_examples": [1, 1e9, 3, 2**24],
  },
  "no accuracy": {"updates": _ROWS, "accuracy": 0},
  "one accuracy zero": {"updates": _ROWS, "accuracy": [1, 0, 0.5, 1e-38]},
  "full accuracy": {"updates": _ROWS, "accuracy": 1},
  "unequal steps": {"updates": _ROWS, "effective_steps": [1, 1e9, 0.5, 3]},
  "one without steps": {"updates": _ROWS, "effective_steps": [0, 1, 2, 3]},
  "no gradient": {"updates": _ROWS, "gradient_norm": 0},
  "one gradient zero": {"updates": _ROWS, "gradient_norm": [0, 1, 2, 3]},
  "tiny and huge gradients": {
    "updates": _ROWS,
    "gradient_norm": [1e-30, 1, 1e30, 2],
  },
  "no initial loss": {"updates": _ROWS, "initial_loss": 0},
  "tiny initial losses": {
    "updates": _ROWS,
    "loss": _LOSS,
    "initial_loss": [0, 1e-30, 2e-30, 1],
  },
  "no learning rate": {"updates": np.zeros([3, 9]), "learning_rate": 0},
}
