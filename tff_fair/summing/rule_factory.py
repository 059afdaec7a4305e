"""Builds a rule's aggregation process, of any kind that the rule allows."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack

import tensorflow_federated as tff

from tff_fair import declared, privacy, spelling, types
from tff_fair.privacy import unused_assertions
from tff_fair.summing import (
  aggregation_kinds,
  client_scalars,
  defences,
  single_aggregate,
  stacked,
  streaming,
  two_phase,
)
from tff_fair.summing.client_weighting import (
  ClientWeighting,
  read_client_weighting,
  read_loss_reference,
)
from tff_fair.summing.defences import Defence


class RuleFactory(tff.aggregators.WeightedAggregationFactory):
  """Sums client updates with coefficients that a rule chooses for the cohort.

  The process that `create` returns computes `d = sum_k c_k * update_k`, with
  `c = rule(signals of the cohort)`. Its `next` has the type

    (<S@SERVER, {V}@CLIENTS, {W}@CLIENTS>
     -> <state=S@SERVER, result=V@SERVER, measurements=M@SERVER>)

  where V is a structure of floats. W is `tff_fair.ClientSignals`, or any
  structure with the fields that the rule needs, by the same names. If the rule
  does not need signals, W may also be a scalar, the number of examples. S is
  the state of the rule and of the inner sum. The process excludes clients whose
  update or signals are not finite, that have no examples, or that report a
  negative number of steps, learning rate, accuracy or gradient norm.

  The measurements are `num_clients`, `num_clients_excluded`, `direction_norm`,
  `coefficient_min`, `coefficient_max` and `coefficients_negative`; with
  signals, also `loss_mean`, `loss_std`, `loss_min`, `loss_max`, `client_ids`,
  `coefficients` and `client_losses`. If the Gram matrix is known, the
  certificate follows: `directional_derivative_min` (min_k <update_k, d>),
  `share_descending` (of clients with <update_k, d> > 0), `pareto_stationarity`
  and `blocking_weights` (s and lambda of
  `tff_fair.kernels.pareto_stationarity`). The rule adds its own measurements.
  Those of an inner sum are under `sum`; those of a tape begin with "tape_", see
  `tff_fair.summing.tape`. Secure and private sums report nothing about single
  clients: only `num_clients`, `num_clients_excluded`,
  `num_clients_out_of_bounds`, `direction_norm`, and the measurements of the
  rule that follow from sums.
  """

  def __init__(
    self,
    rule: types.Rule,
    *,
    aggregation: aggregation_kinds.Aggregation | None = None,
    client_weighting: ClientWeighting = "num_examples",
    sum_factory: tff.aggregators.UnweightedAggregationFactory | None = None,
    secure_bound: float | None = None,
    dp: privacy.DifferentialPrivacy | None = None,
    defence: defences.Defence | None = None,
    certificate: bool = False,
    tape: bool | str = False,
    loss_reference: Mapping[int, float] | None = None,
  ) -> None:
    """Initializes the factory.

    Args:
      rule: Chooses the coefficients.
      aggregation: "streaming", "two_phase", "stacked" or "secure"; `None` takes
        the cheapest that the rule allows, or "two_phase" with a `sum_factory`.
      client_weighting: What p_k is: "num_examples", n_k over its sum;
        "uniform", 1/m; or w_k over its sum, with numbers w_k as a mapping by
        client id or as a sequence that starts with client 0. A round fails if
        one of its clients has no number.
      sum_factory: Sums what clients send: the scaled updates with "two_phase",
        all terms with "secure". It must return a sum, not a mean. `None` sums
        in the clear, or with `tff.aggregators.SecureSumFactory` if "secure".
      secure_bound: For "secure", the largest absolute value in a client's
        e_k Delta_k; a client that exceeds it is left out. `None` is 1024, or no
        bound with a `sum_factory`.
      dp: Adds noise for differential privacy, see `tff_fair.privacy.dp`; `None`
        adds none.
      defence: Bounds the effect of single updates; `None` trusts all clients.
      certificate: Whether to use "stacked" and compute the Gram matrix, so that
        each round reports its certificate: `pareto_stationarity` and so on.
        Rules that need the matrix always report the certificate.
      tape: Whether each round reports the inputs from which any rule can choose
        its coefficients later, and this rule's choice, see
        `tff_fair.summing.tape`; with "updates", also the updates. A tape
        implies `certificate`.
      loss_reference: f_k* by client id. The rule gets the gap f_k - f_k*
        instead of the loss, and `loss_mean` and so on are those of the gaps.
        For rules that take negative losses; `None` for no reference.

    Raises:
      TypeError: If `sum_factory` is not a factory, or `client_weighting` is
        neither a string nor numbers.
      FieldError: If the rule does not allow `aggregation`; if `sum_factory`
        does not fit `aggregation`, or does not return a sum; if a choice is
        unknown, the defence does not fit `aggregation` or `sum_factory`, or
        `dp` would not protect.
    """
    self._rule = rule
    self._options = aggregation_kinds.Options(
      client_weighting=read_client_weighting(client_weighting),
      aggregation=aggregation,
      sum_factory=sum_factory,
      secure_bound=secure_bound,
      dp=dp,
      defence=defence,
      certificate=certificate,
      tape=tape,
      loss_reference=read_loss_reference(loss_reference),
    )
    self._aggregation, self._sum_factory = aggregation_kinds.choose(
      rule, self._options
    )

  @property
  def rule(self) -> types.Rule:
    """The rule."""
    return self._rule

  @property
  def aggregation(self) -> aggregation_kinds.Aggregation:
    """The kind of aggregation."""
    return self._aggregation

  @property
  def sums_securely(self) -> bool:
    """Whether each number that a client sends goes into a secure sum.

    The value is False if a `tff.aggregators.SumFactory` replaces the secure
    sum, as in tests.
    """
    return self._aggregation == aggregation_kinds.SECURE and not isinstance(
      self._sum_factory, tff.aggregators.SumFactory
    )

  def create_for_rounds(
    self,
    value_type: tff.Type,
    weight_type: tff.Type,
    *,
    updates_checked: bool = False,
  ) -> tff.templates.AggregationProcess:
    """Creates the process of `create`, but with a `RoundUpdate` as its result.

    The result shows a finalizer whether any client was included: for a server
    optimizer with momentum, a step of zero differs from no step. With
    `updates_checked`, the server does not check updates: a client whose update
    is not finite must report no examples, as in the client work of `tff_fair`.
    """
    value_type, weight_type = tff.to_type(value_type), tff.to_type(weight_type)
    sizes_known = tff.types.contains_only(
      value_type,
      lambda t: (
        not isinstance(t, tff.TensorType)
        or tff.types.is_shape_fully_defined(t.shape)
      ),
    )
    if not tff.types.is_structure_of_floats(value_type) or not sizes_known:
      raise TypeError(
        "Expected updates that are structures of floats of known shapes, found "
        f"the type {value_type}."
      )
    reader = self._reader(weight_type, updates_checked=updates_checked)
    process = self._build(reader, value_type, weight_type)
    if self._options.defence is None:
      return process
    return self._options.defence.wrap(process, value_type, weight_type)

  @property
  def has_phases(self) -> bool:
    """Whether `create_phases` can build the sum.

    The rule must choose its coefficients without knowing the updates, and
    neither noise nor a defence's bound may change updates before the sum.
    """
    defence = self._options.defence
    bounds_updates = defence and defence.sum_factory is None
    return (
      self._aggregation == aggregation_kinds.TWO_PHASE
      and self._rule.geometry is types.Geometry.NONE
      and self._options.dp is None
      and not bounds_updates
    )

  def create_phases(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> two_phase.SumPhases:
    """Creates the process of `create_for_rounds` in two phases.

    Clients whose update is not finite must report no examples.
    """
    return two_phase.build_sum_phases(
      self._reader(weight_type, updates_checked=True),
      value_type,
      weight_type,
      self._inner_sum,
    )

  def _reader(
    self, weight_type: tff.Type, *, updates_checked: bool
  ) -> client_scalars.ScalarReader:
    return client_scalars.ScalarReader.create(
      self._rule,
      self._options.client_weighting,
      weight_type,
      updates_checked=updates_checked,
      loss_reference=self._options.loss_reference,
    )

  @property
  def _inner_sum(self) -> tff.aggregators.UnweightedAggregationFactory:
    if self._sum_factory is None:
      return tff.aggregators.SumFactory()
    unused_assertions.keep_out_of_log()  # The factory may be a secure sum.
    return self._sum_factory

  def _build(
    self,
    reader: client_scalars.ScalarReader,
    value_type: tff.Type,
    weight_type: tff.Type,
  ) -> tff.templates.AggregationProcess:
    """Builds the process of `create_for_rounds` for the chosen aggregation."""
    if self._options.dp is not None:
      from tff_fair.summing import secure  # noqa: PLC0415  Few rounds need it.

      return secure.build_private(
        reader,
        value_type,
        weight_type,
        self._options.dp,
        sum_factory=self._sum_factory,
        securely=self._aggregation == aggregation_kinds.SECURE,
      )
    if self._aggregation == aggregation_kinds.SECURE:
      from tff_fair.summing import comparison_sums, secure  # noqa: PLC0415  Few need it.

      compares = isinstance(self._rule, types.ComparingRule)
      return (comparison_sums.build if compares else secure.build_secure)(
        reader,
        value_type,
        weight_type,
        bound=self._options.secure_bound,
        sum_factory=self._sum_factory,
      )
    if self._aggregation == aggregation_kinds.STACKED:
      return stacked.build_stacked(
        reader,
        value_type,
        weight_type,
        certificate=self._options.certificate or bool(self._options.tape),
        tape=self._options.tape,
      )
    if self._aggregation == aggregation_kinds.STREAMING:
      return streaming.build_streaming(reader, value_type, weight_type)
    return two_phase.build_two_phase(
      reader, value_type, weight_type, self._inner_sum
    )

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates a process for updates and weights of the given types.

    Args:
      value_type: The type of a client's update, a structure of floats.
      weight_type: The type of the update's weight; see the class.

    Returns:
      A `tff.templates.AggregationProcess`.

    Raises:
      TypeError: If `value_type` is not a structure of floats of known shapes,
        or `weight_type` lacks signals that the rule needs.
    """
    return single_aggregate.with_converted_output(
      self.create_for_rounds(value_type, weight_type),
      value_type,
      weight_type,
      lambda output: tff.templates.MeasuredProcessOutput(
        output.state, output.result.update, output.measurements
      ),
    )


class FactoryOptions(TypedDict, total=False):
  """The options of every method's factory; see `RuleFactory`."""

  aggregation: aggregation_kinds.Aggregation | None
  client_weighting: ClientWeighting
  sum_factory: tff.aggregators.UnweightedAggregationFactory | None
  secure_bound: float | None
  dp: privacy.DifferentialPrivacy | None
  defence: Defence | None
  certificate: bool
  tape: bool | str
  loss_reference: Mapping[int, float] | None


_Factory = TypeVar("_Factory", bound=type[RuleFactory])


def factory_of(
  rule_class: type[types.Rule],
) -> Callable[[_Factory], _Factory]:
  """Decorates a subclass of `RuleFactory`, making it the factory of one rule.

  The subclass's constructor takes the rule's hyperparameters and the options of
  `RuleFactory` as keywords. The constructor's docstring lists them.

  Args:
    rule_class: The rule, a dataclass.
  """
  fields = declared.fields_of(rule_class)

  def initialize(self: RuleFactory, **options: Unpack[FactoryOptions]) -> None:
    keywords: dict[str, Any] = dict(options)
    known = [*fields, *FactoryOptions.__annotations__]
    for name in keywords:
      if name not in known:
        raise TypeError(
          f"{type(self).__name__}: unknown keyword {name!r}; "
          f"{spelling.advice(name, known, 'keywords')}"
        )
    hparams = {name: keywords.pop(name) for name in fields if name in keywords}
    RuleFactory.__init__(self, rule_class(**hparams), **keywords)

  signature = declared.add_to_signature(
    inspect.signature(initialize), fields.values()
  )
  vars(initialize)["__signature__"] = signature
  initialize.__name__ = "__init__"
  initialize.__doc__ = "\n".join(
    filter(
      None,
      [
        "Initializes the factory.\n\nArgs:",
        declared.document(fields.values()),
        "  **options: As those of `RuleFactory`.",
      ],
    )
  )
  needs = f"Needs the signals {', '.join(rule_class.signals)}."

  def decorate(factory: _Factory) -> _Factory:
    initialize.__qualname__ = f"{factory.__name__}.__init__"
    factory.__init__ = initialize  # type: ignore[assignment,method-assign]
    if rule_class.signals:
      factory.__doc__ = f"{inspect.getdoc(factory)}\n\n{needs}"
    return factory

  return decorate
