"""Makes one graph of a computation over clients.

TFF's worker computes each client, and each sum of two, in calls of their own,
which its threads hand to each other. For small models this takes as long as the
arithmetic, and the worker keeps all values of clients until the last call ends.
Here a computation of TFF becomes another one: a single graph of TensorFlow,
with loops over the clients. It computes the same, bit for bit.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, native, private_tff, shared_tensors
from tff_fair.runtime.one_graph import (
  client_values,
  inlining,
  loops,
  steps,
)
from tff_fair.runtime.parts import arguments

_Compile: TypeAlias = Callable[[tff.Computation], tff.Computation]


class OneGraph(NamedTuple):
  """A computation as one graph, with its argument.

  Attributes:
    computation: Takes the same arguments, but for values at clients, in whose
      place it takes what is sent of them to the server; returns the same.
    argument: Its argument.
  """

  computation: tff.Computation
  argument: Any


class _CannotSendError(Exception):
  """Values of clients that have none of the forms."""


def of(
  comp: tff.Computation,
  arg: Any,
  compile_now: _Compile,
  clients_at_a_time: int,
) -> OneGraph | None:
  """Returns a call of a computation as one of a graph, if it can be one.

  It cannot if anything but variables of a client keeps a state in TensorFlow's
  graphs, such as random generators, and if it does not sum over clients.

  Args:
    comp: The computation.
    arg: Its argument as TFF hands it to a context, or with an `Argument` in
      some places.
    compile_now: Returns a computation as the worker takes it.
    clients_at_a_time: How many clients may work at the same time.
  """
  parameter = comp.type_signature.parameter
  if not _has_clients(parameter):
    return None
  found: list[client_values.ClientValues] = []
  try:
    sent = _sent(arg, parameter, found)
  except _CannotSendError:
    return None
  if len({len(clients.values) for clients in found}) > 1:
    return None  # TFF raises an error.
  forms = [clients.form for clients in found]
  names = ", ".join(form.name for form in forms)
  name = f"one graph: {names}; {clients_at_a_time} at a time"

  def build() -> tff.Computation | None:
    try:
      return _build(compile_now(comp), forms, clients_at_a_time)
    except admission.NotAdmittedError as error:
      admission.log("a computation does not become one graph", error)
    # TensorFlow refuses graphs by errors of many classes.
    except Exception as error:
      warnings.warn(
        "The worker computes one client after the other, which takes longer: "
        f"{type(error).__name__}: {error}",
        RuntimeWarning,
        stacklevel=2,
      )
    return None

  found_graph = private_tff.kept_with(
    comp, name, lambda: _kept(native.origin_of(comp), name, build)
  )
  return None if found_graph is None else OneGraph(found_graph, sent)


def _kept(
  origin: native.Origin,
  name: str,
  build: Callable[[], tff.Computation | None],
) -> tff.Computation | None:
  """Returns what this program builds, or an earlier one has built."""
  built = functools.cache(build)
  if origin.text(name, lambda: "no" if built() is None else "yes") == "no":
    return None
  return origin.computation(name, built)


def _sent(
  value: Any, type_spec: tff.Type, found: list[client_values.ClientValues]
) -> Any:
  """Returns what is sent of an argument; adds what it finds of clients."""
  if not _has_clients(type_spec):
    return value
  if isinstance(value, arguments.Argument):
    value = value.value
  if isinstance(type_spec, tff.StructType):
    members = tff.structure.from_container(value)
    return tff.structure.Struct.unnamed(
      *(
        _sent(member, part, found)
        for member, part in zip(members, type_spec, strict=True)
      )
    )
  clients = client_values.of(value, type_spec.member)
  if clients is None:
    raise _CannotSendError
  found.append(clients)
  return clients


def _has_clients(type_spec: tff.Type | None) -> bool:
  return type_spec is not None and tff.types.contains(
    type_spec, arguments.is_at_clients
  )


def _build(
  compiled: tff.Computation,
  forms: Sequence[client_values.Form],
  clients_at_a_time: int,
) -> tff.Computation:
  message = tff.framework.serialize_computation(compiled)
  plan = steps.read(message)
  steps.check_is_one_graph(plan)
  if not admission.takes_clients_side_by_side(message):
    clients_at_a_time = 1
  at_clients = [step for step in plan.arguments if step.at_clients]
  for form, step in zip(forms, at_clients, strict=True):
    # Each loop would make datasets anew, and they may shuffle as they are read.
    if form.makes_datasets and len(steps.loops_that_read(plan, step)) > 1:
      raise admission.NotAdmittedError("datasets that two sums read")
  parameter = compiled.type_signature.parameter
  result_type = compiled.type_signature.result
  sent_type = _sent_type(parameter, iter(forms))

  @tff.tensorflow.computation(
    [t.member for t in inlining.leaf_types(sent_type)]
  )
  def compute(args: Any) -> Any:
    values = [_tuples(arg) for arg in args]
    graph = loops.Graph(
      plan, values, forms, clients_at_a_time=clients_at_a_time
    )
    tensors = tf.nest.flatten(graph.result())
    return shared_tensors.structured(iter(tensors), result_type)

  @tff.federated_computation(sent_type)
  def compute_at_server(arg: Any) -> Any:
    zipped = tff.federated_zip([*_flat_values(arg, sent_type)])
    results = _flat_values(tff.federated_map(compute, zipped), result_type)
    return tff.structure.pack_sequence_as(result_type, [*results])

  return native.compile_ahead(compute_at_server)


def _sent_type(
  type_spec: tff.Type, forms: Iterator[client_values.Form]
) -> tff.Type:
  """Returns the type of what is sent of an argument."""
  if isinstance(type_spec, tff.StructType):
    return tff.StructType([_sent_type(part, forms) for part in type_spec])
  if type_spec.placement is tff.CLIENTS:
    return tff.FederatedType(next(forms).sent_type, tff.SERVER)
  return type_spec


def _flat_values(value: Any, type_spec: tff.Type) -> Iterator[Any]:
  if isinstance(type_spec, tff.StructType):
    for index, part in enumerate(type_spec):
      yield from _flat_values(value[index], part)
  else:
    yield value


def _tuples(value: Any) -> inlining.Value:
  """Returns a value of TFF's as one of tuples."""
  if tf.is_tensor(value):
    return value
  return tuple(map(_tuples, tff.structure.from_container(value)))
