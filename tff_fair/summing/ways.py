"""The ways to sum, which of them a rule allows, and what goes with them."""

from typing import NamedTuple, TypeAlias

import tensorflow_federated as tff

from tff_fair import declared, privacy, types
from tff_fair.summing import defences
from tff_fair.summing.client_weighting import UNIFORM, ByClient

STREAMING = "streaming"
TWO_PHASE = "two_phase"
STACKED = "stacked"
SECURE = "secure"

UPDATES = "updates"  # The tape that has them.


SumFactory: TypeAlias = tff.aggregators.UnweightedAggregationFactory


class Way(NamedTuple):
  """How client updates are summed.

  Attributes:
    aggregation: The name of the way.
    sum_factory: Sums what clients send; `None` is the way's own.
  """

  aggregation: str
  sum_factory: SumFactory | None


def supported_aggregations(
  rule: types.Rule | type[types.Rule],
) -> tuple[str, ...]:
  """Returns the ways to sum that a rule allows, the default first.

  Args:
    rule: A rule, or its class, which alone decides.
  """
  rule_class = rule if isinstance(rule, type) else type(rule)
  if rule_class.geometry is types.Geometry.GRAM:
    return (STACKED,)
  if issubclass(rule_class, types.SeparableRule):
    ways = (STREAMING, TWO_PHASE, STACKED)
    return (*ways, SECURE) if rule_class.can_use_sums() else ways
  if issubclass(rule_class, types.ComparingRule):
    return (TWO_PHASE, STACKED, SECURE)
  return (TWO_PHASE, STACKED)


def why_not_secure(rule: types.Rule | type[types.Rule]) -> str:
  """Returns why secure sums do not serve a rule that does not allow them."""
  rule_class = rule if isinstance(rule, type) else type(rule)
  if rule_class.geometry is types.Geometry.GRAM:
    return "its rule compares the updates of clients with each other"
  if rule_class.initialize is not types.Rule.initialize:
    return (
      "its rule keeps a number for each client from round to round, and secure "
      "sums do not tell whose a number is"
    )
  return "its rule does not follow from sums over clients"


def choose(
  rule: types.Rule,
  *,
  aggregation: str | None,
  client_weighting: str | ByClient,
  sum_factory: SumFactory | None,
  secure_bound: float | None,
  dp: privacy.DifferentialPrivacy | None,
  defence: defences.Defence | None,
  certificate: bool,
  tape: bool | str,
) -> Way:
  """Returns the way to sum that some options ask for.

  Args:
    rule: Chooses the coefficients.
    aggregation: See `tff_fair.aggregators.RuleFactory`, as for the others.
    client_weighting: What p_k is.
    sum_factory: Sums what clients send.
    secure_bound: The bound of the secure way.
    dp: The noise.
    defence: Bounds single updates.
    certificate: Whether the server is to know the Gram matrix.
    tape: The same for a tape.

  Raises:
    TypeError: If `sum_factory` is no factory.
    FieldError: If the options do not go together, or not with the rule.
  """
  if not isinstance(tape, bool) and tape != UPDATES:
    raise declared.FieldError(
      "tape", f"expected True, False or {UPDATES!r}.", value=tape
    )
  if tape or certificate:
    option = "tape" if tape else "certificate"
    aggregation = _with_gram(option, aggregation, sum_factory, dp, defence)
  if sum_factory is not None:
    privacy.check_sums(sum_factory)
  if dp is not None:
    _check_private(rule, aggregation, client_weighting, defence)
  supported = supported_aggregations(rule)
  robust_sum = defence.sum_factory if defence else None
  if defence and robust_sum:
    if TWO_PHASE not in supported or aggregation not in (None, TWO_PHASE):
      raise declared.FieldError("defence", _no_sum(rule, defence, aggregation))
    if sum_factory is not None:
      raise declared.FieldError(
        "sum_factory",
        f"The defence {defence.kind!r} is a sum of its own: leave out "
        "sum_factory, or the defence.",
      )
    sum_factory = robust_sum
  if sum_factory is not None and TWO_PHASE not in supported:
    raise declared.FieldError(
      "sum_factory",
      f"{type(rule).__name__} needs the updates themselves, of which a "
      "sum_factory tells the sum alone: leave it out. To bound updates, wrap "
      "the factory, as in tff.aggregators.clipping_factory(norm, factory).",
    )
  if aggregation is None:
    aggregation = supported[0]
    if sum_factory is not None:
      aggregation = TWO_PHASE if dp is None else SECURE
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
  _check_secure(rule, aggregation, client_weighting, secure_bound, defence)
  return Way(aggregation, sum_factory)


def _with_gram(
  option: str,
  aggregation: str | None,
  sum_factory: SumFactory | None,
  dp: privacy.DifferentialPrivacy | None,
  defence: defences.Defence | None,
) -> str:
  """Returns the way in which the server knows the Gram matrix."""
  hides_updates = sum_factory or dp or (defence and defence.sum_factory)
  if hides_updates or aggregation not in (None, STACKED):
    raise declared.FieldError(
      option,
      "needs all updates at the server, which has them with "
      f"aggregation={STACKED!r} alone, and without dp, a sum_factory or a "
      f"defence that is a sum; found aggregation={aggregation!r}. Leave these "
      f"out, or the {option}.",
    )
  return STACKED


def _check_private(
  rule: types.Rule,
  aggregation: str | None,
  client_weighting: str | ByClient,
  defence: defences.Defence | None,
) -> None:
  """Checks that noise protects: no client changes what another one adds."""
  if not (isinstance(rule, types.SeparableRule) and rule.own_factor):
    raise declared.FieldError(
      "dp",
      f"Differential privacy does not protect with {type(rule).__name__}: its "
      "coefficients depend on other clients, so that one client can change the "
      "sum by more than the clip. Take a method whose coefficients do not, as "
      "fedavg, fedavg_n, fedprox or fedadam.",
    )
  if client_weighting != UNIFORM:
    is_text = isinstance(client_weighting, str)
    found = repr(client_weighting) if is_text else "weights by hand"
    raise declared.FieldError(
      "client_weighting",
      "Differential privacy needs client_weighting='uniform': the number of "
      "examples of one client, or its weight, would change the weights of all; "
      f"found {found}.",
    )
  if aggregation not in (None, STREAMING, SECURE):
    raise declared.FieldError(
      "aggregation",
      f"Differential privacy goes with {STREAMING!r} or {SECURE!r} sums, "
      f"which report no client's scalars; found {aggregation!r}.",
    )
  if defence is not None:
    raise declared.FieldError(
      "defence",
      f"The bounds of the defence {defence.kind!r} follow the updates without "
      "noise: leave it out beside dp, which clips by itself.",
    )


def _check_secure(
  rule: types.Rule,
  aggregation: str,
  client_weighting: str | ByClient,
  bound: float | None,
  defence: defences.Defence | None,
) -> None:
  """Checks that a rule can be applied to secure sums."""
  if bound is not None:
    declared.check_number(
      "secure_bound", bound, minimum=0, exclude_minimum=True, in_float32=True
    )
  if aggregation != SECURE:
    return
  if isinstance(rule, types.SeparableRule):
    rule.log_reference()  # Raises without a reference.
  elif (
    isinstance(rule, types.ComparingRule)
    and rule.needs_uniform_weights
    and client_weighting != UNIFORM
  ):
    raise declared.FieldError(
      "client_weighting",
      f"{type(rule).__name__} counts clients in its secure sums: take "
      "client_weighting='uniform', or leave aggregation='secure' out.",
    )
  if defence is not None:
    raise declared.FieldError(
      "defence",
      f"The defence {defence.kind!r} learns of each client in the clear "
      "whether it passes a bound: leave it out beside aggregation='secure', "
      "which has bounds of its own (secure_bound).",
    )


def _no_sum(
  rule: types.Rule, defence: defences.Defence, aggregation: str | None
) -> str:
  """Says why a defence that is a sum does not go with a rule or a way."""
  if TWO_PHASE in supported_aggregations(rule):
    why = f"found aggregation={aggregation!r}; leave it out"
  else:
    why = (
      f"{type(rule).__name__} needs the inner products of all updates, which "
      "are not known there; take 'clipping' or 'zeroing'"
    )
  return (
    f"The defence {defence.kind!r} takes the place of the sum of "
    f"aggregation={TWO_PHASE!r}: {why}."
  )
