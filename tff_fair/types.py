"""Defines the types that all parts of the library share.

These are clients' signals, cohorts, and the base classes of rules.

A fair method is a *rule*: from the cohort's scalars and, for geometric methods,
the Gram matrix M of the client updates, it returns one coefficient c_k per
client. The round's direction is d = sum_k c_k Delta_k, with Delta_k the
pseudo-gradient (initial minus trained weights) of client k. This module needs
only TensorFlow; everything federated is elsewhere.
"""

import abc
import collections
import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import tensorflow as tf

from tff_fair import declared

# A structure that `tf.nest` takes, such as weights, updates or states.
TensorStructure: TypeAlias = (
  tf.Tensor | Sequence["TensorStructure"] | Mapping[str, "TensorStructure"]
)

# Stands for a signal that a rule has not asked for; computing with it fails.
_NOT_ASKED_FOR: Any = None


class ClientSignals(NamedTuple):
  """The scalars a client reports with its update, as `update_weight`.

  Attributes:
    client_id: int64, identifies the client across rounds.
    num_examples: float32, n_k, the number of the client's training examples. A
      client without examples is excluded from the round; so is a client whose
      update or signals are not finite, or whose accuracy, learning rate, steps
      or gradient norm is negative.
    loss: float32, f_k, mean loss of the received model over the client's
      training examples.
    accuracy: float32, a_k in [0, 1], of the received model over the same
      examples; 0 if the model has no notion of accuracy.
    learning_rate: float32, eta, the client learning rate of this round; 0 if
      the client optimizer has none.
    effective_steps: float32, tau_k, the number of local optimizer steps; with a
      stateful optimizer, FedNova's ||a_k||_1: how far a weight with a constant
      gradient of one would have moved, divided by eta if the optimizer has the
      hyperparameter eta.
    gradient_norm: float32, G_k, norm of the gradient of the loss at the
      received model over all of the client's training examples; 0 unless a rule
      asks for it.
    initial_loss: float32, F_k(theta^0), mean loss of the first round's model
      over the client's training examples; 0 unless a rule asks for it.
  """

  client_id: tf.Tensor
  num_examples: tf.Tensor
  loss: tf.Tensor
  accuracy: tf.Tensor
  learning_rate: tf.Tensor
  effective_steps: tf.Tensor
  gradient_norm: tf.Tensor
  initial_loss: tf.Tensor


def signals_spec(shape: Sequence[int | None] = ()) -> ClientSignals:
  """Returns the specs of clients' signals, each of shape `shape`."""
  return ClientSignals(
    *(
      tf.TensorSpec(shape, tf.int64 if name == "client_id" else tf.float32)
      for name in ClientSignals._fields
    )
  )


# The signals that rules must ask for; ids and example counts are always there.
MEASURED_SIGNALS = tuple(
  name
  for name in ClientSignals._fields
  if name not in ("client_id", "num_examples")
)


def client_dataset(
  client_id: int | tf.Tensor, examples: tf.data.Dataset
) -> tf.data.Dataset:
  """Returns one client's data in the form that processes take.

  Args:
    client_id: The client's id, the same in every round; must fit an int64. In a
      dataset computation it may be a scalar tensor: an integer, or a string,
      whose 63-bit hash becomes the id. Methods that weight the whole population
      need integers from 0 up.
    examples: Batches of the client's examples, each an `(x, y)` tuple or a dict
      with the keys "x" and "y", as in the model's `input_spec`. If you pass
      `batch_size` to `tff_fair.algorithms.build`, a batch may hold all of the
      client's examples.

  Returns:
    A dataset of `(client_id, batch)`, with client_id an int64 scalar. Without
    batches there is no id: the process then excludes the client from the round.

  Raises:
    TypeError: If `examples` is not a `tf.data.Dataset`, or `client_id` is not
      an integer.
    ValueError: If `client_id` does not fit an int64.
  """
  if not isinstance(examples, tf.data.Dataset):
    raise TypeError(
      "Expected `examples` to be a tf.data.Dataset of batches, found "
      f"{type(examples).__name__}. Build one with "
      "tf.data.Dataset.from_tensors((x, y))."
    )
  if tf.is_tensor(client_id):
    return _with_ids(_id_of_tensor(client_id), examples)
  try:
    identifier = client_id.__index__()
  except AttributeError as error:
    raise TypeError(
      "Expected `client_id` to be an integer, found "
      f"{type(client_id).__name__}: {client_id!r}. Number the clients, "
      "for instance by their place in the sorted list of their names."
    ) from error
  if not -(2**63) <= identifier < 2**63:
    raise ValueError(
      f"Expected `client_id` to fit an int64, found {identifier}. Number the "
      "clients, for instance by their place in the sorted list of their names."
    )
  return _with_ids(tf.constant(identifier, tf.int64), examples)


def _id_of_tensor(client_id: tf.Tensor) -> tf.Tensor:
  """Returns a client id, int64[]: an integer as it is, or a string's hash."""
  is_string = client_id.dtype == tf.string
  if client_id.shape.rank != 0 or not (is_string or client_id.dtype.is_integer):
    raise TypeError(
      "Expected a tensor as `client_id` to be a scalar, an integer or a "
      f"string, found {client_id.dtype.name} of shape {client_id.shape}."
    )
  if is_string:
    return tf.strings.to_hash_bucket_fast(client_id, 2**63 - 1)
  return tf.cast(client_id, tf.int64)


def _with_ids(
  client_id: tf.Tensor, examples: tf.data.Dataset
) -> tf.data.Dataset:
  ids = tf.data.Dataset.from_tensors(client_id).repeat()
  return tf.data.Dataset.zip((ids, examples))


class Cohort(NamedTuple):
  """The data that a rule gets about a round's m clients, by ascending id.

  Excluded clients are not in it. Signals that a rule has not asked for may be
  `None`.

  Attributes:
    client_id: int64[m].
    weight: float64[m], p_k, positive with sum 1; by default n_k over its sum.
    num_examples: float64[m], n_k.
    loss: float64[m], f_k.
    accuracy: float64[m], a_k.
    learning_rate: float64[m], eta.
    effective_steps: float64[m], tau_k.
    gradient_norm: float64[m], G_k.
    initial_loss: float64[m], F_k(theta^0).
    squared_norm: float64[m], ||Delta_k||^2, if the rule asks for NORMS or GRAM.
    gram: float64[m, m], M_ij = <Delta_i, Delta_j>, if the rule asks for GRAM;
      float64[m + r, m + r] with r remembered updates, which come last.
    remembered_id: int64[r], the clients of the remembered updates, the latest
      round first; each update is its client's latest before this round.
    remembered_age: int32[r], the age of these updates in rounds, 1 or more.
  """

  client_id: tf.Tensor
  weight: tf.Tensor
  num_examples: tf.Tensor
  loss: tf.Tensor = _NOT_ASKED_FOR
  accuracy: tf.Tensor = _NOT_ASKED_FOR
  learning_rate: tf.Tensor = _NOT_ASKED_FOR
  effective_steps: tf.Tensor = _NOT_ASKED_FOR
  gradient_norm: tf.Tensor = _NOT_ASKED_FOR
  initial_loss: tf.Tensor = _NOT_ASKED_FOR
  squared_norm: tf.Tensor = _NOT_ASKED_FOR
  gram: tf.Tensor = _NOT_ASKED_FOR
  remembered_id: tf.Tensor = _NOT_ASKED_FOR
  remembered_age: tf.Tensor = _NOT_ASKED_FOR


class Geometry(enum.Enum):
  """What a rule needs of the updates: nothing, norms, or the Gram matrix."""

  NONE = "none"
  NORMS = "norms"
  GRAM = "gram"


class RuleOutput(NamedTuple):
  """The result of a rule for a cohort of m clients.

  Attributes:
    coefficients: float64[m], c_k, in the order of the cohort; float64[m + r]
      with r remembered updates.
    state: The rule's state for the next round.
    measurements: Scalars to report, by name; or vectors [m], in the order of
      the cohort.
    for_finalizer: Scalars to send to the finalizer with the direction.
  """

  coefficients: tf.Tensor
  state: TensorStructure = ()
  measurements: Mapping[str, tf.Tensor] = collections.OrderedDict()
  for_finalizer: Mapping[str, tf.Tensor] = collections.OrderedDict()


class RoundUpdate(NamedTuple):
  """The result of a round's aggregation, for the finalizer.

  Attributes:
    update: The direction d, with the structure of a client's update.
    num_clients: int32[], the number of included clients. If it is 0, d is zero
      and the finalizer changes neither weights nor state.
    scalars: float32 scalars that the rule sends to the finalizer, by name.
  """

  update: TensorStructure
  num_clients: tf.Tensor
  scalars: Mapping[str, tf.Tensor]


class Rule(declared.Hyperparameters, abc.ABC):
  """Chooses one coefficient per client; a pure function on small tensors.

  A rule is a frozen dataclass; its fields are its hyperparameters.

  A rule must be equivariant: clients with equal signals and geometry get equal
  coefficients, whatever their position in the cohort. It never gets an empty
  cohort.

  Attributes:
    signals: Names of the `ClientSignals` that the rule reads besides
      `client_id` and `num_examples`.
    takes_gaps: Whether the losses may be gaps f_k - f_k* from reference losses;
      gaps may be negative.
    counts_negative_as_zero: Whether the rule sets losses below 0 to 0.
    is_measured: Whether the caller of the process writes measured or random
      values into the rule's state between rounds.
    geometry: What the rule needs to know about the updates.
  """

  signals: ClassVar[tuple[str, ...]] = ()
  takes_gaps: ClassVar[bool] = False
  counts_negative_as_zero: ClassVar[bool] = False
  is_measured: ClassVar[bool] = False
  geometry: ClassVar[Geometry] = Geometry.NONE

  @property
  def remembered_rounds(self) -> int:
    """The number of rounds for which the server remembers updates."""
    return 0

  @property
  def finds_least_norm(self) -> bool:
    """Whether d is the least-norm point in the convex hull of the updates.

    The coefficients are then also the certificate's `blocking_weights`.
    """
    return False

  def initialize(self) -> TensorStructure:
    """Returns the state before the first round, a structure of tensors."""
    return ()

  @abc.abstractmethod
  def coefficients(self, cohort: Cohort, state: Any) -> RuleOutput:
    """Returns the coefficients of one round.

    Args:
      cohort: The clients of the round, m >= 1.
      state: The state from `initialize` or the previous round.
    """


class Sums(NamedTuple):
  """The sums over a cohort that a separable rule gets.

  Here e_k = exp(l_k - r), and r is the rule's `log_reference`.

  Attributes:
    weight: float64[], sum_k w_k, where w_k is n_k, 1, or the caller's weight.
    scale: float64[], sum_k e_k.
    first_moment: float64[], sum_k e_k x_k; 0 without a covariate.
    second_moment: float64[], sum_k e_k x_k^2; 0 without a covariate.
    terms: float64[] each, the sums of the rule's `terms`, by name.
  """

  weight: tf.Tensor
  scale: tf.Tensor
  first_moment: tf.Tensor
  second_moment: tf.Tensor
  terms: Mapping[str, tf.Tensor] = collections.OrderedDict()


class SumsOutput(NamedTuple):
  """The result of a separable rule for sums: c_k = e_k (level + slope x_k).

  Attributes:
    level: float64[], u.
    slope: float64[], v; `None` without a covariate.
    measurements: Scalars to report, by name.
    for_finalizer: Scalars that go to the finalizer with the direction.
  """

  level: tf.Tensor
  slope: tf.Tensor | None = None
  measurements: Mapping[str, tf.Tensor] = collections.OrderedDict()
  for_finalizer: Mapping[str, tf.Tensor] = collections.OrderedDict()


class SeparableRule(Rule):
  """A rule whose direction needs only one pass over the updates.

  c_k = exp(l_k) * (u + v * x_k), where l_k and x_k depend only on client k;
  only the scalars u and v depend on the whole cohort. So the direction follows
  from sums to which the server adds updates as they arrive, in O(d) memory.

  If `from_sums` is defined, the server needs to know only sums over clients, so
  secure sums suffice.

  Attributes:
    own_factor: Whether c_k / p_k depends only on client k. With equal weights,
      no client can then change the terms that other clients add to the sum.
  """

  own_factor: ClassVar[bool] = False

  @abc.abstractmethod
  def log_weight(self, cohort: Cohort) -> tf.Tensor:
    """Returns l_k, float64[clients]; each entry is a function of client k only.

    Args:
      cohort: The cohort; its `weight` is w_k of `Sums`, without normalization.
    """

  def covariate(self, cohort: Cohort) -> tf.Tensor | None:
    """Returns x_k, float64[clients], or `None` if c_k is exp(l_k) times u."""
    del cohort
    return None

  def terms(self, cohort: Cohort) -> Mapping[str, tf.Tensor]:
    """Returns further terms, by name, whose sums `from_sums` needs.

    Args:
      cohort: As in `log_weight`.

    Returns:
      float64[clients] each; entry k must be a function of client k only.
    """
    del cohort
    return {}

  def log_reference(self) -> float:
    """Returns r, for which exp(l_k - r) stays in the range of secure sums.

    Raises:
      FieldError: If there is no r for these hyperparameters.
    """
    return 0.0

  def from_sums(self, sums: Sums) -> SumsOutput:
    """Returns u, v and the measurements of the round from sums over clients.

    Args:
      sums: The sums; all are zero without clients.
    """
    raise NotImplementedError

  @classmethod
  def can_use_sums(cls) -> bool:
    """Returns whether `from_sums` is defined."""
    return cls.from_sums is not SeparableRule.from_sums

  @classmethod
  def has_covariate(cls) -> bool:
    """Returns whether `covariate` is defined."""
    return cls.covariate is not SeparableRule.covariate


class ComparingRule(Rule):
  """A rule that can work with successive sums instead of clients' signals.

  In each phase, every client adds a vector to a sum and learns the sum, which
  shows how the client compares with other clients. In the last phase, clients
  send their updates times factors e_kj, and the direction becomes
  d = sum_j u_j sum_k e_kj Delta_k.

  Attributes:
    num_phases: The number of phases before the last.
    num_factors: The number of factors e_kj of each client.
    needs_uniform_weights: Whether all clients must have equal weights.
    loss_bound: B: with secure sums, a client with |f_k| > B is excluded; None
      for no bound.
  """

  num_phases: ClassVar[int] = 1
  num_factors: ClassVar[int] = 1
  needs_uniform_weights: ClassVar[bool] = False
  loss_bound: float | None = None

  @abc.abstractmethod
  def phase(self, cohort: Cohort, known: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the vectors that m clients add to a phase's sum, float64[m, n].

    Args:
      cohort: The cohort; its `weight` is w_k of `Sums`, without normalization.
        Row k of the result must depend on only client k and `known`.
      known: The sums of the earlier phases, float64[n_i] each.
    """

  @abc.abstractmethod
  def factors(self, cohort: Cohort, known: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns e_kj, [clients, num_factors]; the arguments are as in `phase`."""

  @abc.abstractmethod
  def levels(
    self, known: Sequence[tf.Tensor], total: tf.Tensor
  ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
    """Returns u_j, float64[num_factors], and the scalars to report, by name.

    Args:
      known: The sums of all phases before the last; zeros without clients.
      total: float64[num_factors], sum_k e_kj.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinningRule(ComparingRule):
  """A rule that compares losses by their bins in [-B, B], B = `loss_bound`.

  Attributes:
    num_bins: The number of bins, all of the same width.
  """

  loss_bound: float = declared.value(
    16.0,
    "B: with secure sums, a client with |f_k| > B does not count.",
    **declared.ABOVE_0,
  )

  signals = ("loss",)
  takes_gaps = True
  num_bins: ClassVar[int]

  def bins(self, loss: tf.Tensor) -> tf.Tensor:
    """Returns the index of the bin of each loss, int64[clients].

    A loss outside of [-B, B] is in the nearest bin.
    """
    place = tf.floor((loss / self.loss_bound + 1.0) * (self.num_bins / 2))
    return tf.clip_by_value(tf.cast(place, tf.int64), 0, self.num_bins - 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PopulationRule(Rule):
  """A rule whose state has an entry for each client of the population."""

  num_clients: int = declared.required(
    "N, the size of the population, every client of which the method weighs; "
    "client ids are 0 to N - 1.",
    minimum=1,
  )

  def even(self) -> tf.Tensor:
    """Returns equal weights with sum 1, float64[num_clients]."""
    share = tf.constant(1.0 / self.num_clients, tf.float64)
    return tf.fill([self.num_clients], share)

  def places(self, cohort: Cohort) -> tf.Tensor:
    """Returns the indices of a cohort's clients in the rule's state.

    Args:
      cohort: A cohort of m clients.

    Returns:
      int64[m], the clients' ids; computing them fails if an id is out of range.
    """
    in_range = tf.debugging.Assert(
      tf.reduce_all(cohort.client_id >= 0)
      & tf.reduce_all(cohort.client_id < self.num_clients),
      [
        f"The method was built for num_clients={self.num_clients}, so that "
        f"client ids are 0 to {self.num_clients - 1}; the cohort has the ids",
        cohort.client_id,
      ],
    )
    with tf.control_dependencies([in_range] if in_range is not None else []):
      return tf.identity(cohort.client_id)
