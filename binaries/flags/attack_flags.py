"""Attack: a study of clients that report something else than they found."""

from __future__ import annotations

import math
import typing

import numpy as np
from absl import flags

from binaries.command_line import UsageError
from tff_fair.experiments.training import sampling

if typing.TYPE_CHECKING:
  from tff_fair import client_works

_EFFECTS = {"bias": "adds to losses", "scaling": "multiplies updates with"}

_ATTACK = flags.DEFINE_enum(
  "attack",
  "none",
  ["none", *_EFFECTS],
  "What attackers do, a seeded subset of the clients: bias adds a constant to "
  "the losses they report, scaling multiplies their updates. Results are there "
  "for the honest clients alone, too.",
)
_SHARE = flags.DEFINE_float(
  "attack_share",
  0.1,
  "Share of the clients that attack, in (0, 1); one client at least, and one "
  "remains honest.",
)
_STRENGTH = flags.DEFINE_float(
  "attack_strength",
  None,
  "What bias adds, 0 or more; what scaling multiplies with, below 0 to turn "
  "updates round.",
)
flags.register_validator(
  _SHARE.name,
  lambda value: 0 < value < 1,
  message="expected a number in (0, 1)",
)
flags.register_validator(
  _STRENGTH.name,
  lambda value: value is None or math.isfinite(value),
  message="expected a finite number",
)


def build(seed: int, num_clients: int) -> client_works.Attack | None:
  """Returns the attack, `None` if there is none.

  Args:
    seed: Seed of the draw of attackers.
    num_clients: Size of the population.

  Raises:
    UsageError: If flags do not go together.
  """
  from tff_fair import client_works  # noqa: PLC0415

  kind, strength = _ATTACK.value, _STRENGTH.value
  if kind == "none":
    if strength is not None:
      raise UsageError(
        f"--{_STRENGTH.name}={strength}: nobody attacks; give "
        f"--{_ATTACK.name}, {' or '.join(_EFFECTS)}, too."
      )
    return None
  if strength is None:
    raise UsageError(
      f"--{_ATTACK.name}={kind}: does not say how strongly; give "
      f"--{_STRENGTH.name}, what it {_EFFECTS[kind]}."
    )
  if num_clients < 2:
    raise UsageError(
      f"--{_ATTACK.name}={kind}: the task has one client; expected an honest "
      "one beside it."
    )
  ids = sampling.attackers(seed, num_clients, _SHARE.value)
  try:
    return client_works.Attack(
      kind=kind, strength=strength, client_ids=tuple(ids.tolist())
    )
  except ValueError as error:
    raise UsageError(f"--{_STRENGTH.name}={strength}: {error}") from error


def check_evaluated(
  attack: client_works.Attack | None, evaluated: np.ndarray
) -> None:
  """Checks that an honest client is evaluated.

  Raises:
    UsageError: If all that are evaluated attack.
  """
  if attack is not None and set(evaluated.tolist()) <= set(attack.client_ids):
    raise UsageError(
      f"--{_ATTACK.name}={attack.kind}: every client that is "
      "evaluated attacks; evaluate more clients, or choose another seed."
    )
