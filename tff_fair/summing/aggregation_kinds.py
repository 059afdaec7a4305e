"""Checks which kinds of aggregation a rule allows, and with which options.

`RuleFactory` then builds the aggregation of the chosen kind.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

import tensorflow_federated as tff

from tff_fair import declared, privacy, types
from tff_fair.summing import defences
from tff_fair.summing.client_weighting import UNIFORM, ClientNumbers

Aggregation: TypeAlias = Literal["streaming", "two_phase", "stacked", "secure"]

STREAMING: Final = "streaming"
TWO_PHASE: Final = "two_phase"
STACKED: Final = "stacked"
SECURE: Final = "secure"

UPDATES = "updates"  # The value of the option `tape` that records updates.


SumFactory: TypeAlias = tff.aggregators.UnweightedAggregationFactory


class Options(NamedTuple):
  """The options of `RuleFactory` for summing client updates."""

  client_weighting: str | ClientNumbers
  aggregation: Aggregation | None  # `None` is the cheapest kind.
  sum_factory: SumFactory | None  # `None` takes the default sum.
  secure_bound: float | None
  dp: privacy.DifferentialPrivacy | None
  defence: defences.Defence | None
  certificate: bool
  tape: bool | str
  loss_reference: ClientNumbers | None


def supported_aggregations(
  rule: types.Rule | type[types.Rule],
) -> tuple[Aggregation, ...]:
  """Returns the kinds of aggregation that a rule allows, the default first.

  Args:
    rule: A rule or its class; only the class matters.
  """
  rule_class = rule if isinstance(rule, type) else type(rule)
  if rule_class.geometry is types.Geometry.GRAM:
    return (STACKED,)
  if issubclass(rule_class, types.SeparableRule):
    ways: tuple[Aggregation, ...] = (STREAMING, TWO_PHASE, STACKED)
    return (*ways, SECURE) if rule_class.can_use_sums() else ways
  if issubclass(rule_class, types.ComparingRule):
    return (TWO_PHASE, STACKED, SECURE)
  return (TWO_PHASE, STACKED)


def why_not_secure(rule: types.Rule | type[types.Rule]) -> str:
  """Returns in words why a rule does not allow secure sums."""
  rule_class = rule if isinstance(rule, type) else type(rule)
  if rule_class.geometry is types.Geometry.GRAM:
    return "its rule compares the updates of clients with each other"
  if rule_class.initialize is not types.Rule.initialize:
    return (
      "its rule keeps a number for each client from round to round, and secure "
      "sums do not show whose number it is"
    )
  return "its rule does not follow from sums over clients"


def choose(
  rule: types.Rule, options: Options
) -> tuple[Aggregation, SumFactory | None]:
  """Returns the kind of aggregation, and its sum factory.

  A sum factory of `None` stands for the default sum. Raises `TypeError` if the
  option `sum_factory` is not a factory, and `FieldError` if the options
  contradict each other or do not fit the rule.
  """
  _check_each(rule, options)
  aggregation = options.aggregation
  if options.tape or options.certificate:
    _check_with_gram(options)
    aggregation = STACKED
  if options.dp is not None:
    _check_private(rule, options)
  sum_factory = _sum_factory(rule, options)
  supported = supported_aggregations(rule)
  if aggregation is None:
    aggregation = supported[0]
    if sum_factory is not None:
      aggregation = TWO_PHASE if options.dp is None else SECURE
  if aggregation not in supported:
    reason = f" ({why_not_secure(rule)})" if aggregation == SECURE else ""
    raise declared.FieldError(
      "aggregation",
      f"{type(rule).__name__} can be summed in these ways: "
      f"{', '.join(supported)}; found {aggregation!r}{reason}.",
    )
  if sum_factory is not None and aggregation not in (TWO_PHASE, SECURE):
    raise declared.FieldError(
      "sum_factory",
      f"A sum_factory goes with aggregation={TWO_PHASE!r} or {SECURE!r}, found "
      f"{aggregation!r}.",
    )
  if aggregation == SECURE:
    _check_secure(rule, options)
  return aggregation, sum_factory


def _check_each(rule: types.Rule, options: Options) -> None:
  """Checks each option without regard to the other options."""
  if options.loss_reference is not None and not rule.takes_gaps:
    raise declared.FieldError(
      "loss_reference",
      f"{type(rule).__name__} needs losses of 0 or more, and a gap may be "
      "negative, or it reads no losses; leave loss_reference out.",
    )
  if not isinstance(options.tape, bool) and options.tape != UPDATES:
    raise declared.FieldError(
      "tape", f"expected True, False or {UPDATES!r}.", value=options.tape
    )
  if options.sum_factory is not None:
    privacy.check_sums(options.sum_factory)
  if options.secure_bound is not None:
    declared.check_number(
      "secure_bound",
      options.secure_bound,
      minimum=0,
      exclude_minimum=True,
      in_float32=True,
    )


def _sum_factory(rule: types.Rule, options: Options) -> SumFactory | None:
  """Returns the option `sum_factory`, or else the factory of the defence."""
  sum_factory, defence = options.sum_factory, options.defence
  allows_two_phase = TWO_PHASE in supported_aggregations(rule)
  if defence and defence.sum_factory:
    if not allows_two_phase or options.aggregation not in (None, TWO_PHASE):
      why = f"found aggregation={options.aggregation!r}; leave it out"
      if not allows_two_phase:
        why = (
          f"{type(rule).__name__} needs the inner products of all updates, "
          "which are not known there; take 'clipping' or 'zeroing'"
        )
      raise declared.FieldError(
        "defence",
        f"The defence {defence.kind!r} takes the place of the sum of "
        f"aggregation={TWO_PHASE!r}: {why}.",
      )
    if sum_factory is not None:
      raise declared.FieldError(
        "sum_factory",
        f"The defence {defence.kind!r} is a sum of its own: leave out "
        "sum_factory, or the defence.",
      )
    return defence.sum_factory
  if sum_factory is not None and not allows_two_phase:
    raise declared.FieldError(
      "sum_factory",
      f"{type(rule).__name__} needs the updates themselves, but a "
      "sum_factory returns only their sum: leave it out. To bound updates, "
      "wrap the factory: tff.aggregators.clipping_factory(norm, factory).",
    )
  return sum_factory


def _check_with_gram(options: Options) -> None:
  """Checks that the options let the server see the updates' Gram matrix."""
  option = "tape" if options.tape else "certificate"
  aggregation, defence = options.aggregation, options.defence
  hides_updates = (
    options.sum_factory or options.dp or (defence and defence.sum_factory)
  )
  if hides_updates or aggregation not in (None, STACKED):
    raise declared.FieldError(
      option,
      "needs all updates at the server, which has them only with "
      f"aggregation={STACKED!r}, and without dp, a sum_factory or a defence "
      f"that is a sum; found aggregation={aggregation!r}. Leave these out, or "
      f"the {option}.",
    )


def _check_private(rule: types.Rule, options: Options) -> None:
  """Checks that no client can change another client's term of the sum."""
  if not (isinstance(rule, types.SeparableRule) and rule.own_factor):
    raise declared.FieldError(
      "dp",
      f"Differential privacy does not go with {type(rule).__name__}: its "
      "coefficients depend on other clients, so that one client can change the "
      "sum by more than the clip, or its server step needs more than the sum. "
      "Take a method of another kind, such as fedavg, fedprox or propfair.",
    )
  if options.client_weighting != UNIFORM:
    is_text = isinstance(options.client_weighting, str)
    found = repr(options.client_weighting) if is_text else "weights by client"
    raise declared.FieldError(
      "client_weighting",
      "Differential privacy needs client_weighting='uniform': the number of "
      "examples of one client, or its weight, would change the weights of all; "
      f"found {found}.",
    )
  if options.aggregation not in (None, STREAMING, SECURE):
    raise declared.FieldError(
      "aggregation",
      f"Differential privacy goes with {STREAMING!r} or {SECURE!r} sums, "
      f"which report no client's scalars; found {options.aggregation!r}.",
    )
  if (defence := options.defence) is not None:
    raise declared.FieldError(
      "defence",
      f"The bounds of the defence {defence.kind!r} follow the updates without "
      "noise: leave it out beside dp, which clips by itself.",
    )


def _check_secure(rule: types.Rule, options: Options) -> None:
  """Checks that a rule can be applied to secure sums."""
  if isinstance(rule, types.SeparableRule):
    rule.log_reference()  # Raises `FieldError` if there is no reference.
  elif (
    isinstance(rule, types.ComparingRule)
    and rule.needs_uniform_weights
    and options.client_weighting != UNIFORM
  ):
    raise declared.FieldError(
      "client_weighting",
      f"{type(rule).__name__} counts clients in its secure sums: take "
      "client_weighting='uniform', or leave aggregation='secure' out.",
    )
  if (defence := options.defence) is not None:
    raise declared.FieldError(
      "defence",
      f"The defence {defence.kind!r} learns of each client in the clear "
      "whether it passes a bound: leave it out beside aggregation='secure', "
      "which has bounds of its own (secure_bound).",
    )
