"""Compiles computations into the form that TFF's native backend executes.

TFF compiles a computation at its first call: it flattens the computation and
optimizes each TensorFlow graph in it. For a method's `next`, compiling takes as
long as building. With this module, a program can compile a computation before
its first call, and store the result.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow_federated as tff

from tff_fair.runtime import admission, tff_internals

_SECURE_INTRINSICS = (
  "federated_secure_modular_sum",
  "federated_secure_sum",
  "federated_secure_sum_bitwidth",
)


class Origin:
  """Gives access to an uncompiled computation and results derived from it."""

  def __init__(self, traced: Callable[[], tff.Computation]) -> None:
    """Takes a function that returns the computation before compilation."""
    self.traced = traced

  def computation(
    self, name: str, build: Callable[[], tff.Computation]
  ) -> tff.Computation:
    """Compiles the result of `build`; subclasses may cache it by name."""
    del name
    return compile_ahead(build())

  def text(self, name: str, find: Callable[[], str]) -> str:
    """Returns the result of `find`; subclasses may cache it by name."""
    del name
    return find()


class NativeComputation(tff.framework.ConcreteComputation):
  """A compiled computation, which the runtime does not compile again."""

  origin: Origin | None = None

  @classmethod
  def read(
    cls,
    content: bytes,
    annotate: Callable[[tff.FunctionType], tff.FunctionType],
  ) -> NativeComputation:
    """Reads a computation; `annotate` adds Python containers to its type."""
    # TFF has no public name for the class of its messages.
    message = type(tff.framework.Placement(tff.SERVER).proto)()
    message.ParseFromString(content)
    return cls(
      computation_proto=message,
      context_stack=tff.framework.get_context_stack(),
      annotated_type=annotate(tff.types.deserialize_type(message.type)),
    )

  def content(self) -> bytes:
    """Returns the serialized computation, without Python containers."""
    return tff.framework.serialize_computation(self).SerializeToString()


def origin_of(comp: tff.Computation) -> Origin:
  """Returns the origin that the cache has set, or else a new `Origin`."""
  return getattr(comp, "origin", None) or Origin(lambda: comp)


def compile_ahead(comp: tff.Computation) -> NativeComputation:
  """Returns a computation in compiled form; compiles it if necessary."""
  if isinstance(comp, NativeComputation):
    return comp
  return NativeComputation(
    computation_proto=compile_now(comp),
    context_stack=tff.framework.get_context_stack(),
    annotated_type=comp.type_signature,
  )


def compile_now(comp: tff.Computation) -> admission.Message:
  """Compiles a computation to the message that TFF's native backend runs."""
  require_no_secure_sums(comp)
  if not isinstance(comp, NativeComputation):
    tff_internals.install_graph_optimizer()
    comp = tff.backends.native.desugar_and_transform_to_native(comp)
  return tff.framework.serialize_computation(comp)


def with_plain_sums(comp: tff.Computation) -> tff.Computation:
  """Returns a computation whose secure sums are computed in the clear."""

  def replaced() -> tff.Computation:
    clear = tff.backends.test.replace_secure_intrinsics_with_bodies(comp)
    return tff.framework.ConcreteComputation(
      computation_proto=tff.framework.serialize_computation(clear),
      context_stack=tff.framework.get_context_stack(),
      annotated_type=comp.type_signature,
    )

  if not _has_secure_sums(comp):
    return comp
  return tff_internals.cached_on(comp, "in the clear", replaced)


def require_no_secure_sums(comp: tff.Computation) -> tff.Computation:
  """Returns the computation; raises `RuntimeError` if it has secure sums."""
  if _has_secure_sums(comp):
    raise RuntimeError(
      "TensorFlow Federated runs secure sums only in deployments, not here. To "
      "simulate them in the clear, which protects nothing, call "
      "tff_fair.runtime.use_local(simulate_secure_sums=True)."
    )
  return comp


def _has_secure_sums(comp: tff.Computation) -> bool:
  return tff_internals.cached_on(
    comp,
    "secure sums",
    lambda: admission.has_intrinsic(comp, _SECURE_INTRINSICS),
  )


def secure_sum_transform(
  simulated: bool,
) -> Callable[[tff.Computation], tff.Computation]:
  """Returns `with_plain_sums` if `simulated`, else `require_no_secure_sums`."""
  return with_plain_sums if simulated else require_no_secure_sums
