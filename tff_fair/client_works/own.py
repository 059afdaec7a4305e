"""Client work of a user's own, from the computation of one client."""

import tensorflow_federated as tff


def build_from_computation(
  work: tff.Computation,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work that does the same for each client in each round.

  Args:
    work: One client's work in a round, of the type (<W, D> -> R): from the
      model's weights, `tff.learning.models.ModelWeights`, and a sequence, the
      client's data, to a `tff.learning.templates.ClientResult` of update and
      signals.

  Returns:
    A process without state and measurements. Its `next` has the type
    (<()@SERVER, W@CLIENTS, {D}@CLIENTS> -> <state=()@SERVER, result=R@CLIENTS,
    measurements=()@SERVER>).

  Raises:
    TypeError: If `work` is no `tff.Computation`, or not of that type.
  """
  if not isinstance(work, tff.Computation):
    raise TypeError(
      "Expected `work` to be a tff.Computation, found "
      f"{type(work).__name__}. Decorate the function with "
      "@tff.tensorflow.computation(weights_type, data_type)."
    )
  parameter = work.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or len(parameter) != 2:
    raise TypeError(
      "Expected `work` to take two arguments, the model's weights and a "
      f"client's data, found the type {work.type_signature}."
    )
  weights_type, data_type = parameter

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_value((), tff.SERVER)

  @tff.federated_computation(
    tff.FederatedType((), tff.SERVER),
    tff.FederatedType(weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    result = tff.federated_map(work, (weights, data))
    measurements = tff.federated_value((), tff.SERVER)
    return tff.templates.MeasuredProcessOutput(state, result, measurements)

  return tff.learning.templates.ClientWorkProcess(initialize, next_fn)
