"""Runs clients that keep a state from one round to the next.

TFF's clients keep nothing, so the server has a table for each kind of state,
with a row for each client; see `client_table`. In the server's state, the
tables are next to the state of the training.

Each client may train a personal model besides the global one, as in Ditto: Li,
Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021), Algorithm 1.

  v <- v - eta (grad f_k(v) + lam (v - theta))

for as many local steps as the global model takes. v starts from the first model
that the client received. Choices made here: f_k is the client's loss itself,
even if the method makes clients minimize something else (PropFair); the
optimizer is initialized in each round.

Clients may also keep the state of the client optimizer, see `client_optimizer`,
and a control variate, see `control_variates`.
"""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, types
from tff_fair.client_works import (
  client_optimizer,
  client_round,
  client_table,
  control_variates,
  local_model,
  local_training,
  training,
  training_settings,
)
from tff_fair.kernels import stacking

TRAINING = "training"
# The state of the training under `TRAINING`, and each table under its name.
State: TypeAlias = collections.OrderedDict[str, Any]

PERSONAL = "personal"
OPTIMIZER = "optimizer"
CONTROLS = "controls"
# Tables by name, each with only one client's row, or with no row before the
# client's first round.
ClientTables: TypeAlias = Mapping[str, client_table.Table]
# The two parts of a `client_round.Result`, and the new rows by table name.
Result: TypeAlias = tuple[Any, Any, Mapping[str, client_table.NewRow]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PersistentState:
  """The kinds of state that clients keep; false as a `bool` if there is none.

  Attributes:
    personal_lam: How strongly the personal models are pulled towards the global
      one; `None` trains no personal models.
    optimizer_state: Whether the client optimizer of the global model continues
      from its state in the client's last round.
    controlled_clients: The number of clients that may take part, if control
      variates correct their local steps (SCAFFOLD); `None` corrects no steps.
  """

  personal_lam: float | None = None
  optimizer_state: bool = False
  controlled_clients: int | None = None

  def __post_init__(self) -> None:
    """Raises `TypeError` or `ValueError` for an invalid `personal_lam`."""
    if self.personal_lam is not None:
      declared.check_number(
        "lam", self.personal_lam, minimum=0, in_float32=True
      )

  def __bool__(self) -> bool:
    """Returns whether clients keep any state."""
    return bool(
      self.personal_lam is not None
      or self.optimizer_state
      or self.controlled_clients
    )

  def tables(
    self,
    weights_type: tff.Type,
    optimizer: tff.learning.optimizers.Optimizer,
  ) -> Mapping[str, client_table.Columns]:
    """Returns the columns of each table, by table name.

    Raises `FieldError` if the optimizer has no state to keep, or if clients
    keep control variates and the optimizer is not SGD without momentum.
    """
    found = collections.OrderedDict()
    if self.personal_lam is not None:
      found[PERSONAL] = personal_columns(weights_type)
    if self.optimizer_state:
      found[OPTIMIZER] = client_optimizer.columns(weights_type, optimizer)
    if self.controlled_clients:
      control_variates.check(optimizer)
      found[CONTROLS] = control_variates.columns(weights_type)
    return found

  def run(
    self,
    client: client_round.ClientRound,
    state: training_settings.RoundState,
    received: Any,
    own: ClientTables,
    cohort: types.ClientSignals | None = None,
  ) -> Result:
    """Runs a client's round; returns what it reports, and the rows to keep.

    `own` has the client's old rows. `cohort` has the cohort's signals if
    clients measured them in an earlier phase.
    """
    weights, states = client.current_weights(received), None
    theta = local_model.flatten(weights.trainable)
    controls, correction = None, None
    if self.controlled_clients:
      controls = control_variates.client_controls(
        state, own[CONTROLS], client.data.client_id(), theta
      )
      correction = controls.correction
    if self.optimizer_state:
      states = client_table.value_or(
        own[OPTIMIZER],
        client.data.client_id(),
        client_optimizer.initial_states(client.optimizer, theta),
      )
    if cohort is None:
      reported, after = client.run(state, received, states, correction)
    else:
      measured = training.signals_of(cohort, client.data.client_id())
      reported, after = client.train(
        state, received, measured, states, correction
      )
    result, tally = reported
    client_id = result.update_weight.client_id
    counts = result.update_weight.num_examples > 0
    found: dict[str, types.TensorStructure] = collections.OrderedDict()
    if self.personal_lam is not None:
      found[PERSONAL] = _train_personal(
        client, self.personal_lam, state, weights, own[PERSONAL], client_id
      )
    if self.optimizer_state:
      found[OPTIMIZER] = after.states
    if controls is not None:
      found[CONTROLS] = controls.next_client_control(
        local_model.flatten(result.update), after.num_steps, after.learning_rate
      )
      tally = collections.OrderedDict(
        tally,
        control=control_variates.change(
          counts, controls.client, found[CONTROLS]
        ),
      )
    kept = collections.OrderedDict(
      (
        name,
        client_table.row_to_keep(
          client_id, counts, stacking.flatten_update(value)
        ),
      )
      for name, value in found.items()
    )
    return result, tally, kept


def personal_columns(weights_type: Any) -> client_table.Columns:
  """Returns the columns of the table that keeps personal models."""
  specs = tff.types.type_to_tf_tensor_specs(weights_type.trainable)
  return client_table.Columns("weights", stacking.row_spec(specs))


def _train_personal(
  client: client_round.ClientRound,
  lam: float,
  state: training_settings.RoundState,
  weights: tff.learning.models.ModelWeights,
  table: client_table.Table,
  client_id: tf.Tensor,
) -> local_model.Trainable:
  """Trains a personal model from the client's row, or else from `weights`."""
  model, theta = client.model, local_model.flatten(weights.trainable)
  model.receive(weights)
  return local_training.train_weights(
    model,
    dataclasses.replace(client.settings, proximal_mu=lam, objective=None),
    client.optimizer,
    {**state, "optimizer": client.hparams(state)},
    theta,
    client.data,
    start=client_table.value_or(table, client_id, theta),
  )
