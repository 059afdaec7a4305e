"""Makes a factory of one rule, whose constructor takes its hyperparameters."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack

import tensorflow_federated as tff

from tff_fair import declared, privacy, types
from tff_fair.summing.client_weighting import ClientWeighting
from tff_fair.summing.defences import Defence
from tff_fair.summing.rule_factory import RuleFactory


class FactoryOptions(TypedDict, total=False):
  """Options of every factory; see `RuleFactory`."""

  aggregation: str | None
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
  """Makes a subclass of `RuleFactory` the factory of one rule.

  Its constructor takes the rule's hyperparameters and the options of
  `RuleFactory`, as keywords; its documentation lists them.

  Args:
    rule_class: The rule, a dataclass.
  """
  fields = declared.fields_of(rule_class)

  def initialize(self: RuleFactory, **options: Unpack[FactoryOptions]) -> None:
    keywords: dict[str, Any] = dict(options)
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
