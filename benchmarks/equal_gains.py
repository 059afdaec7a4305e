r"""How often clients are told to gain from a model that is no better.

In each federation, every client tests two models on the same examples: of one
class with probability 0.3, with log odds that both models see alike, with a
noise of their own each. So they are equally good, and differ by chance.

  python -m benchmarks.equal_gains [--federations=1000]

It prints, for each score, the percentage of federations in which a client is
told to gain or to lose, with p below 0.05 after Holm's correction, and the
percentage of intervals that cover 0.
"""

from collections.abc import Sequence

import numpy as np
from absl import app, flags

from tff_fair.experiments.comparing import paired
from tff_fair.metrics import gains

_FEDERATIONS = flags.DEFINE_integer("federations", 1000, "Of each score.")

SCORES = ("accuracy", "auc", "f1", "log_loss")
LEVEL = 0.05


def outputs(generator: np.random.Generator, number: int) -> gains.Outputs:
  """Returns what two equally good models make of a client's examples.

  Args:
    generator: Of all draws.
    number: How many examples the client has, at least two.
  """
  labels = (generator.random(number) < 0.3).astype(int)
  labels[:2] = 0, 1
  shared = generator.normal(0, 1, number) + labels - 0.5
  models = [
    np.stack([np.zeros(number), shared + generator.normal(0, 1, number)], 1)
    for _ in range(2)
  ]
  return gains.Outputs(labels, *models)


def rates(
  score: str,
  federations: int,
  *,
  num_clients: int = 5,
  sizes: tuple[int, int] = (15, 60),
  draws: int = 500,
) -> tuple[float, float]:
  """Returns how often a client is told apart, and intervals cover 0.

  Args:
    score: The score.
    federations: How many to simulate.
    num_clients: Clients of each.
    sizes: The least and the largest number of test examples, exclusive.
    draws: Of the test.

  Returns:
    The share of federations, and that of clients.
  """
  told, covered = 0, 0
  for federation in range(federations):
    generator = np.random.default_rng(federation)
    found = [
      gains.client_gain(
        score,
        outputs(generator, int(generator.integers(*sizes))),
        positive=1,
        draws=draws,
        seed=(federation, client),
      )
      for client in range(num_clients)
    ]
    p_values = [gain.p_value for gain in found]
    factors = paired.holm_factors(p_values)
    least = min(f * p for f, p in zip(factors, p_values, strict=True))
    told += least < LEVEL
    covered += sum(gain.low <= 0 <= gain.high for gain in found)
  return told / federations, covered / (federations * num_clients)


def main(argv: Sequence[str]) -> None:
  """Prints a line for each score."""
  del argv
  print("score      told apart %  intervals cover 0 %")
  for score in SCORES:
    told, covered = rates(score, _FEDERATIONS.value)
    print(f"{score:10} {100 * told:12.1f} {100 * covered:20.1f}", flush=True)


if __name__ == "__main__":
  app.run(main)
