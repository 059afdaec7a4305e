"""TERM: tilted empirical risk minimization.

Li, Beirami, Sanjabi, Smith (ICLR 2021); the rule is `tff_fair.rules.term`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import term


def build_term(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  t: float = term.TermRule.t,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds TERM.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    t: Tilt; 0 recovers FedAvg.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    term.TermRule(t=t),
    client_optimizer=client_optimizer,
    **options,
  )
