"""Defines the state of a run after a round, which callbacks receive."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tff_fair.experiments.spec.scores import ACCURACY, Score

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff

# The name of a summary's entry with the results on validation data.
VALIDATION = "validation"

# Results over clients by name, see `client_evaluation.summarize`. A summary may
# contain further summaries: "global", of the global model if there are personal
# models; "honest", of the clients that do not attack; and "validation".
Summary: TypeAlias = Mapping[str, "float | Mapping[str, float] | Summary"]


class RoundEvaluation(NamedTuple):
  """An evaluation of the model on the test data of clients.

  Attributes:
    summary: Statistics over the clients, by name.
    clients: Columns with one entry per client, in ascending order of client id.
    score: The score by which clients are compared.
  """

  summary: Summary
  clients: Mapping[str, np.ndarray]
  score: Score = ACCURACY

  @property
  def statistics(self) -> Mapping[str, float]:
    """Statistics of the score over the clients, by name."""
    return self._statistics(self.summary)

  @property
  def selection_statistics(self) -> Mapping[str, float]:
    """Statistics of the score on validation data if any, else on test data."""
    found = self.summary.get(VALIDATION, self.summary)
    return self._statistics(typing.cast(Summary, found))

  def _statistics(self, summary: Summary) -> Mapping[str, float]:
    return typing.cast(Mapping[str, float], summary[self.score.name])


class ClientUpdates(NamedTuple):
  """The updates and signals that clients have sent in a round.

  Clients that aggregation excludes, such as those without examples, are absent.

  Attributes:
    client_id: int64[m], the ids of the m clients, ascending.
    updates: float32[m, d], flattened to d numbers per client: the weights that
      the client received minus those after its training, in the order of
      `model_weights.trainable`.
    signals: float64[m] by name: `num_examples`, `loss`, and all others that
      clients can measure, see `tff_fair.ClientSignals`.
  """

  client_id: np.ndarray
  updates: np.ndarray
  signals: Mapping[str, np.ndarray]


class CallbackStates(NamedTuple):
  """The callbacks' states by name, and the reason to stop ("" if none)."""

  states: Mapping[str, Mapping[str, Any]] = {}
  stop: str = ""


@dataclasses.dataclass(kw_only=True, eq=False)
class RoundState:
  """A run after one of its rounds.

  Attributes:
    round_num: The number of the round; 0 is the model before training.
    metrics: What the method reports about the whole round: nested mappings of
      numbers, as in `metrics.csv`. Empty for round 0.
    clients: The columns of `cohorts.csv`, with one entry for each client that
      reported back, in ascending order of `client_id`; `None` for unknown
      values.
    costs: The round's costs for all clients by name, as in `costs.csv`.
    timing: Durations in seconds by name, as in `timing.csv`.
    evaluation: The evaluation after the round; `None` without an evaluation,
      and in `on_round`, which is called before it.
    process_state: The state of the TFF process, whose parts depend on the
      method.
    tape: The arrays for the tape, see `tff_fair.summing.tape`; may be empty.
    notes: Short texts about the round for the progress display.
    is_best: Whether the evaluation is the best so far.
    is_saved: Whether the state is saved after the round.
    get_model_weights: Returns the model weights in a `process_state`.
    get_updates: Computes `updates`; `None` if they are not available.
    saved_callbacks: The callbacks' states that are saved with the state.
  """

  round_num: int
  process_state: tff.learning.templates.LearningAlgorithmState
  get_model_weights: Callable[[Any], tff.learning.models.ModelWeights] = (
    dataclasses.field(repr=False)
  )
  get_updates: Callable[[], ClientUpdates] | None = None
  metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  clients: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  costs: Mapping[str, int] = dataclasses.field(default_factory=dict)
  timing: dict[str, float] = dataclasses.field(default_factory=dict)
  evaluation: RoundEvaluation | None = None
  tape: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)
  is_best: bool = False
  is_saved: bool = False
  saved_callbacks: CallbackStates | None = None

  @functools.cached_property
  def model_weights(self) -> tff.learning.models.ModelWeights:
    """The weights of the global model, as NumPy arrays.

    `trainable` and `non_trainable` are lists in the order of the Keras model's
    weights; its `assign_weights_to` copies them into a Keras model. The first
    access computes the weights.
    """
    found = self.get_model_weights(self.process_state)
    return type(found)(
      [np.asarray(value) for value in found.trainable],
      [np.asarray(value) for value in found.non_trainable],
    )

  @functools.cached_property
  def updates(self) -> ClientUpdates:
    """The updates of the round's clients, for callbacks that want them.

    At the first access, the clients compute their updates a second time.

    Raises:
      ValueError: In round 0, or if no callback's `wants` has "updates".
    """
    if self.get_updates is None:
      raise ValueError(
        "there are updates only after round 0, in a run with a callback that "
        'says wants = {"updates"}.'
      )
    return self.get_updates()
