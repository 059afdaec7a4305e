"""Defines the two questions that a comparison of methods can answer."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from tff_fair import declared
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.settings import bounds

# The names of the questions; the module `paired` computes intervals for both.
Name = Literal["these_clients", "other_clients"]
THESE_CLIENTS: Name = "these_clients"
OTHER_CLIENTS: Name = "other_clients"
NAMES = (THESE_CLIENTS, OTHER_CLIENTS)

MEANING = (
  "What intervals and p-values answer: these_clients, what other seeds would "
  "show for the same clients and test examples; other_clients, what other "
  "clients like these would show, too. By default these_clients if all clients "
  "take part in each round, and other_clients if rounds sample them."
)
_ANSWERS = {
  THESE_CLIENTS: "these clients and their test examples, with other seeds",
  OTHER_CLIENTS: "other clients like these, and other seeds",
}
_REASONS = {
  THESE_CLIENTS: "all clients take part in each round",
  OTHER_CLIENTS: "rounds sample the clients",
}


class Question(NamedTuple):
  """The question that a comparison answers."""

  name: Name
  is_default: bool = False

  @property
  def population(self) -> str:
    """The phrase in captions that says what the intervals are over."""
    return "seeds" if self.name == THESE_CLIENTS else "seeds and clients"

  @property
  def scope(self) -> str:
    """The phrase in verdicts that says for which clients the answer holds."""
    these = self.name == THESE_CLIENTS
    return "for these clients" if these else "for clients like these"

  @property
  def sentence(self) -> str:
    """A sentence that names the question, and the reason if it is a default."""
    reason = f"; {_REASONS[self.name]}" if self.is_default else ""
    return (
      f"Intervals and p-values are for {_ANSWERS[self.name]} "
      f"(question={self.name}{reason})."
    )


def resolve(name: str | None, runs: Iterable[Run]) -> Question:
  """Returns the question called `name`; for None, the one that fits `runs`."""
  check(name)
  for known in NAMES:
    if name == known:
      return Question(known)
  everyone = all(map(_takes_all_clients, runs))
  return Question(THESE_CLIENTS if everyone else OTHER_CLIENTS, is_default=True)


def check(name: str | None) -> None:
  """Raises a `FieldError` unless `name` is a question or None, the default."""
  if name is not None:
    declared.check_choice("question", name, NAMES)


def _takes_all_clients(run: Run) -> bool:
  """Returns whether rounds and evaluations of a run include all clients."""
  if run.flags["sampling"] == "all" and run.flags["evaluation_clients"] is None:
    return True
  table = run.client_evaluations if run.clients is None else run.clients
  number = tables.drop_unseen(table)["client_id"].nunique()
  least, _ = bounds.range_ends(run.flags["clients_per_round"])
  return least >= number and run.flags["evaluation_clients"] in (None, number)
