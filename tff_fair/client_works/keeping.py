"""What clients keep from one round to the next.

TFF's clients keep nothing, so the server has a table of each kind of thing, a
row for each client; see `client_table`.
"""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow_federated as tff

from tff_fair import declared, types
from tff_fair.client_works import (
  client_round,
  client_table,
  kept_optimizer,
  local_model,
  optimizer_states,
  personal,
  training_phases,
  training_state,
)

PERSONAL = "personal"
OPTIMIZER = "optimizer"
# Tables by name, each with the row of one client, if it has one.
Own: TypeAlias = Mapping[str, client_table.Table]
# The result and the tally of `client_round`, and rows by the names of tables.
Result: TypeAlias = tuple[Any, Any, Mapping[str, client_table.Kept]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keeping:
  """What clients keep; false if it is nothing.

  Attributes:
    personal_lam: Pull of a client's personal model, which it keeps, towards the
      global one; `None` trains no personal models.
    optimizer_state: Whether the client optimizer of the global model goes on
      from its state in the client's last round.
  """

  personal_lam: float | None = None
  optimizer_state: bool = False

  def __post_init__(self) -> None:
    """Checks the pull.

    Raises:
      TypeError: If it is no number.
      ValueError: If it is out of range.
    """
    if self.personal_lam is not None:
      declared.check_number(
        "lam", self.personal_lam, minimum=0, in_float32=True
      )

  def __bool__(self) -> bool:
    """Returns whether clients keep anything."""
    return self.personal_lam is not None or self.optimizer_state

  def tables(
    self,
    weights_type: tff.Type,
    optimizer: tff.learning.optimizers.Optimizer,
  ) -> Mapping[str, client_table.Columns]:
    """Returns the columns of the tables, by the names of tables.

    Args:
      weights_type: The type of `tff.learning.models.ModelWeights`.
      optimizer: The client optimizer.

    Raises:
      FieldError: If the optimizer has nothing to keep.
    """
    found = collections.OrderedDict()
    if self.personal_lam is not None:
      found[PERSONAL] = personal.columns(weights_type)
    if self.optimizer_state:
      found[OPTIMIZER] = kept_optimizer.columns(weights_type, optimizer)
    return found

  def run(
    self,
    client: client_round.ClientRound,
    state: training_state.RoundState,
    received: Any,
    own: Own,
    cohort: types.ClientSignals | None = None,
  ) -> Result:
    """Returns what a client reports and keeps, inside a computation.

    Args:
      client: The client.
      state: The state of the training at the server.
      received: What the client received.
      own: What it keeps.
      cohort: The signals of the cohort, if clients have measured already.
    """
    weights, states = client.current(received), None
    if self.optimizer_state:
      states = kept_optimizer.states_to_start_from(
        own[OPTIMIZER],
        client.data.client_id(),
        optimizer_states.initial_states(
          client.optimizer, local_model.flat(weights.trainable)
        ),
      )
    if cohort is None:
      reported, states = client.run(state, received, states)
    else:
      measured = training_phases.own_signals(cohort, client.data.client_id())
      reported, states = client.train(state, received, measured, states)
    result, tally = reported
    kept: dict[str, client_table.Kept] = collections.OrderedDict()
    if self.personal_lam is not None:
      kept[PERSONAL] = personal.train(
        client,
        self.personal_lam,
        state,
        weights,
        own[PERSONAL],
        result.update_weight,
      )
    if self.optimizer_state:
      kept[OPTIMIZER] = kept_optimizer.states_to_keep(
        states, result.update_weight
      )
    return result, tally, kept
