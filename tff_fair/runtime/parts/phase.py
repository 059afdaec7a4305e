"""A computation in which no sum depends on another, cut for parts.

TFF's mergeable form of it has three computations: one up to what a part's
clients sum, one that merges the sums of two parts, and one from the sums of all
parts to the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_federated as tff


class Phase:
  """A computation in which no sum depends on another, cut for parts.

  Its parameter is cut in two: what is at the server, and what is at clients.

  Attributes:
    server_type: The arguments at the server, in their order.
    clients_type: The arguments at clients, likewise.
    is_at_clients: For each argument whether it is at clients.
  """

  def __init__(
    self,
    parameter: tff.StructType,
    form: Callable[[], Any],
    keep: Callable[
      [str, Callable[[], tff.Computation]], tff.Computation
    ] = lambda _, build: build(),
  ) -> None:
    """Takes what the forms are made of.

    Args:
      parameter: That of the computation; each element is at a placement.
      form: Returns TFF's mergeable form of the computation.
      keep: Returns a computation by its name, from that which builds it.
    """
    self.is_at_clients = [
      element.placement is tff.CLIENTS for element in parameter
    ]
    self.server_type, self.clients_type = (
      tff.StructType(
        [
          element
          for element, at_clients in zip(
            parameter, self.is_at_clients, strict=True
          )
          if at_clients is wanted
        ]
      )
      for wanted in (False, True)
    )
    self._names = tff.structure.name_list_with_nones(parameter)
    self._form = functools.cache(form)
    self._keep = keep
    # Engines know a computation by the object.
    self.merge = functools.cache(self._merge)
    self.finish = functools.cache(self._finish)

  @functools.cached_property
  def up_to_merge(self) -> tff.Computation:
    """From the server's and one part's arguments to what the part sums.

    What it sums is at the server.
    """

    def build() -> tff.Computation:
      form = self._form()

      @tff.federated_computation(self.server_type, self.clients_type)
      def up_to_merge(server: Any, clients: Any) -> Any:
        return form.up_to_merge(self._original(server, clients))

      return up_to_merge

    return self._keep("up_to_merge", build)

  @property
  def _sum_type(self) -> tff.FederatedType:
    return self.up_to_merge.type_signature.result

  def _merge(self, num_parts: int) -> tff.Computation:
    """Returns the computation that merges the sums of parts, in their order.

    Args:
      num_parts: 2 or more.

    Returns:
      From a structure of what each part sums to what all of them sum.
    """

    def build() -> tff.Computation:
      @tff.federated_computation([self._sum_type] * num_parts)
      def merge(parts: Any) -> Any:
        return self._merged(parts)

      return merge

    return self._keep(f"merge {num_parts}", build)

  def _finish(self, num_parts: int) -> tff.Computation:
    """Returns the computation that merges parts and ends the phase.

    Args:
      num_parts: 1 or more.

    Returns:
      From the server's arguments, those at clients, of which there are none,
      and a structure of what each part sums to the result.
    """

    def build() -> tff.Computation:
      form = self._form()

      @tff.federated_computation(
        self.server_type, self.clients_type, [self._sum_type] * num_parts
      )
      def finish(server: Any, clients: Any, parts: Any) -> Any:
        return form.after_merge(
          self._original(server, clients), self._merged(parts)
        )

      return finish

    return self._keep(f"finish {num_parts}", build)

  def _original(self, server: Any, clients: Any) -> Any:
    """Returns the argument of the computation before it was cut."""
    sources = {False: iter(server), True: iter(clients)}
    return tff.structure.Struct(
      [
        (name, next(sources[at_clients]))
        for name, at_clients in zip(
          self._names, self.is_at_clients, strict=True
        )
      ]
    )

  def _merged(self, parts: Any) -> Any:
    """Returns what all parts sum, at the server."""
    merge_two = self._form().merge

    # One graph: between several, TFF would keep each merged sum to the end.
    @tff.tensorflow.computation([self._sum_type.member] * len(parts))
    def merge_all(sums: Any) -> Any:
      remaining: Sequence[Any] = [*sums]
      while len(remaining) > 1:  # Neighbours first.
        pairs = [remaining[i : i + 2] for i in range(0, len(remaining), 2)]
        remaining = [
          merge_two(*pair) if len(pair) == 2 else pair[0] for pair in pairs
        ]
      return remaining[0]

    return tff.federated_map(merge_all, tff.federated_zip([*parts]))
