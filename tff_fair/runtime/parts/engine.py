"""An engine: where the calls that make up a round are computed."""

from collections.abc import Awaitable
from typing import Any, Protocol

import tensorflow_federated as tff

# Cohorts of up to so many clients are one part: one worker computes them as a
# whole.
CLIENTS_PER_PART = 32


class Engine(Protocol):
  """Computes calls, each in one worker, several at the same time if it can.

  A call is a function of its arguments. So an engine may repeat one whose
  worker is lost, in another worker, with the same result.
  """

  async def put(self, value: Any, type_spec: tff.Type) -> Any:
    """Hands over a value that several calls take.

    Args:
      value: As TFF's contexts take it.
      type_spec: Its type; nothing in it is placed at clients.

    Returns:
      What stands for the value as an argument of `call`.
    """

  def call(self, comp: tff.Computation, *args: Any) -> Awaitable[Any]:
    """Computes `comp(*args)` in any one worker; may begin before an await.

    Args:
      comp: As TFF traced it. An engine is called with the same objects again
        and again; it compiles and sends each once.
      *args: The argument if there is one, as TFF's contexts take it, for a
        computation of the user's. For one of `phase.Phase` one for each element
        of its parameter: a value, what `put` or another `call` returned, or a
        `Struct` of such.

    Returns:
      What stands for the result as an argument of `call`, and for `fetch`.

    Raises:
      WorkerLostError: If there is no worker left.
    """

  async def fetch(self, result: Any) -> Any:
    """Returns the value of a `call`'s result, as TFF's contexts return it."""
