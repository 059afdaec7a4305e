"""Defines callbacks on the rounds of a run, and calls them."""

from __future__ import annotations

import copy
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.training.round_state import CallbackStates, RoundState

if typing.TYPE_CHECKING:
  from tff_fair.experiments.runs.run import Run

Verdict: TypeAlias = Literal["stop", "prune"]


class RoundCallback:
  """Follows the rounds of a run; derive from it, and override hooks as needed.

  The hooks are called in the thread of `experiments.run`, between rounds. A run
  that is resumed calls them again for the rounds after the last saved one. An
  exception ends the run, and the rounds before it are saved.

  Attributes:
    wants: What the callback needs besides the usual contents of a state; with
      "updates", it can read `RoundState.updates`.
  """

  wants: Collection[str] = ()

  def on_start(self, run: Run) -> Literal["prune"] | None:
    """Called once before the first round of this call of `experiments.run`.

    Args:
      run: The run in its folder, `run.path`: new, or with the rounds
        (`run.rounds`) and evaluations up to the round after which it resumes.

    Returns:
      `None` to go on; "prune" ends the run without results.
    """

  def on_round(self, state: RoundState) -> Verdict | None:
    """Called after each round, before its evaluation.

    Args:
      state: The run after the round.

    Returns:
      `None` to go on. "stop" makes this round the last one: it is evaluated and
      saved, and the run is finished. "prune" ends the run without results, as a
      search does with a run that is not promising.
    """

  def on_evaluation(self, state: RoundState) -> Verdict | None:
    """Called after each evaluation, also that of the initial model (round 0).

    Args:
      state: The run after the evaluated round.

    Returns:
      As for `on_round`. After round 0, "stop" ends the run after round 1.
    """

  def on_end(self, error: BaseException | None) -> None:
    """Called once after the last round, before the run writes its results.

    Args:
      error: The interruption or exception that ended the rounds; `None` if they
        ended normally.
    """

  def state(self) -> Mapping[str, Any] | None:
    """Returns values to save with the run's state.

    Returns:
      NumPy arrays and JSON values by name; `None` for a callback that keeps
      nothing from round to round.
    """

  def restore(self, state: Mapping[str, Any]) -> None:
    """Restores the values that `state` returned after the last saved round.

    It is called after `on_start`, only in a resumed run.

    Args:
      state: The saved values by name.
    """
    raise NotImplementedError(
      f"{type(self).__name__} has a state, and no method restore."
    )


class Writer(RoundCallback):
  """A callback whose output a thread writes while the next round computes."""

  def write(self, state: RoundState) -> None:
    """Writes the output for a round; round 0 is the model before training."""


class CallbackError(RunError):
  """A user callback's error; `experiments.run` adds advice on how to resume."""


_VERDICTS: Mapping[str, Sequence[Verdict]] = {
  "on_start": ("prune",),
  "on_round": ("stop", "prune"),
  "on_evaluation": ("stop", "prune"),
}
UPDATES = "updates"  # The only valid entry of `RoundCallback.wants`.
_MOST_LETTERS = 120  # The longest quotation from an error of a user's code.


class Callbacks:
  """Calls the callbacks of a run, and keeps their first verdict."""

  def __init__(
    self,
    builtin: Sequence[RoundCallback] = (),
    user_callbacks: Sequence[RoundCallback] = (),
    say: Callable[[str], None] = print,
  ) -> None:
    self._all = [*builtin, *user_callbacks]
    self._names = unique_names(user_callbacks)
    self._say = say
    self._started: list[RoundCallback] = []
    self.writers = [c for c in builtin if isinstance(c, Writer)]
    self.wants_updates = any(c.wants for c in self._all)
    # The first verdict that a callback returned, and the callback's reason.
    self.verdict: Verdict | None = None
    self.reason = ""

  def __enter__(self) -> Self:
    return self

  def __exit__(
    self, kind: object, error: BaseException | None, traceback: object
  ) -> None:
    failed: Exception | None = None
    for callback in reversed(self._started):
      try:
        self._call(callback, "on_end", error)
      except Exception as other:
        if error is None and failed is None:
          failed = other
        else:
          self._say(str(other))
    if failed is not None:
      raise failed

  def start(self, run: Run) -> None:
    """Calls `on_start` of all callbacks."""
    for callback in self._all:
      self._started.append(callback)
      self._call(callback, "on_start", run)

  def dispatch(
    self, hook: Literal["on_round", "on_evaluation"], state: RoundState
  ) -> None:
    """Calls `on_round` or `on_evaluation` of all callbacks."""
    for callback in self._all:
      self._call(callback, hook, state, where=f" of round {state.round_num}")

  def collect_states(self) -> CallbackStates:
    """Returns the current states of all callbacks, to be saved."""
    states: dict[str, Mapping[str, Any]] = {}
    for callback in self._all:
      name = self._names.get(id(callback))
      if name is None or (state := self._call(callback, "state")) is None:
        continue
      for key, value in state.items():
        if not (_is_array(value) or _is_json({key: value})):
          raise CallbackError(
            f"the callback {name} has a state that cannot be saved: {key!r} is "
            f"{type(value).__name__}; expected NumPy arrays and values of JSON "
            "(dictionaries by text, lists, numbers, texts) by name."
          )
      states[name] = copy.deepcopy(dict(state))
    return CallbackStates(states, self.reason if self.verdict == "stop" else "")

  def restore(self, saved: CallbackStates) -> None:
    """Restores the callbacks' saved states, and whether they ended the run."""
    if saved.stop:
      self.verdict, self.reason = "stop", saved.stop
    by_name = {self._names.get(id(c)): c for c in self._all}
    for name, state in saved.states.items():
      if name not in by_name:
        raise CallbackError(
          f"the run was saved with the state of the callback {name}, which is "
          "not given; pass it to callbacks= again."
        )
      self._call(by_name[name], "restore", state)

  def _call(
    self, callback: RoundCallback, hook: str, *args: object, where: str = ""
  ) -> Any:
    """Calls a hook and returns its result; keeps the run's first verdict."""
    name = self._names.get(id(callback))
    try:
      found = getattr(callback, hook)(*args)
    except Exception as error:
      if name is None:
        raise
      text = " ".join(f"{type(error).__name__}: {error}".split())
      raise CallbackError(
        f"the callback {name} failed in {hook}{where}: {text[:_MOST_LETTERS]}"
      ) from error
    if hook not in _VERDICTS or found is None:
      return found
    if not isinstance(found, str) or found not in _VERDICTS[hook]:
      expected = " or ".join(map(repr, [None, *_VERDICTS[hook]]))
      raise CallbackError(
        f"the callback {name} returned {repr(found)[:_MOST_LETTERS]} from "
        f"{hook}{where}; expected {expected}."
      )
    if self.verdict is None:
      self.verdict = typing.cast(Verdict, found)
      self.reason = getattr(callback, "reason", f"the callback {name} says so")
    return found


def unique_names(users: Sequence[RoundCallback]) -> dict[int, str]:
  """Returns distinct names of a user's callbacks, by the callbacks' `id`."""
  names: dict[int, str] = {}
  for callback in users:
    if not isinstance(callback, RoundCallback):
      raise FieldError(
        "callbacks",
        "expected objects of classes derived from experiments.RoundCallback.",
        value=callback,
      )
    if id(callback) in names:
      raise FieldError(
        "callbacks",
        f"found one {type(callback).__name__} twice; expected each once.",
      )
    if unknown := {*callback.wants} - {UPDATES}:
      raise FieldError(
        "callbacks",
        f"{type(callback).__name__} wants {', '.join(map(repr, unknown))}; "
        f"expected {UPDATES!r}.",
      )
    name = type(callback).__name__
    others = [found.partition("-")[0] for found in names.values()]
    number = others.count(name) + 1
    names[id(callback)] = name if number == 1 else f"{name}-{number}"
  return names


def _is_array(value: object) -> bool:
  return isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU"


def _is_json(value: object) -> bool:
  """Returns whether JSON can store a value without changing it."""
  match value:
    case dict():
      return all(isinstance(k, str) and _is_json(v) for k, v in value.items())
    case list():
      return all(map(_is_json, value))
  return value is None or type(value) in (bool, int, float, str)
