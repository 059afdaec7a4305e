"""Names and checks the entries of summary.json that other modules read."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tff_fair.experiments.spec import scores

# Names of entries.
JOINING, GROUPS, UNSEEN, LATE = "joining", "groups", "unseen", "late"
FINETUNED = "finetuned"
THRESHOLD, STATIONARITY = "threshold", "stationarity"
COEFFICIENT_CHANGE = "coefficient_change"
NOISE, MAJORITY = "test_accuracy_noise", "majority"
POSITIVE_CLASS, LEFT_OUT = "positive_class", "left_out_clients"

NUMBER, TEXT, LIST = "number", "string", "list"
_TYPES: Mapping[str, Any] = {NUMBER: int | float, TEXT: str, LIST: list}
ANY = "*"  # Stands for every name in an object.
_OPTIONAL = "?"  # Marks a name that an object may lack.

# The shape of a JSON value is one of
# - the name of a type;
# - for an object, a mapping from names (one or more in a string) to a shape;
# - for an object, a tuple of such mappings: the first mapping that has all the
#   object's names applies, or else the last mapping.
_Object: TypeAlias = "Mapping[str, _Shape]"
_Shape: TypeAlias = "str | _Object | tuple[_Object, ...]"

_MEANS: _Object = {"federated local? pooled? finetuned?": NUMBER}
_GAINS: _Object = {
  "gaining losing undecided mean std min max percentile_50": NUMBER,
  "alone_rounds?": NUMBER,
  "alone_rates?": LIST,
}
_GAP: _Object = {"value low high": NUMBER, "highest lowest": TEXT}
_BOUND: _Object = {"num_clients share confidence needed bound?": NUMBER}
_SUMMARY: _Object = {
  "rounds num_clients": NUMBER,
  "left_out_clients?": LIST,
  " ".join(f"test_{name}?" for name in scores.BY_NAME): {ANY: NUMBER},
  "joining?": (_MEANS, {**_MEANS, **_GAINS}),
  "groups?": {
    "least_examples": NUMBER,
    "positive_class?": TEXT,
    "groups": {ANY: {"examples": NUMBER, ANY: NUMBER}},
    "gaps": {ANY: ({}, _GAP)},
  },
  "finetuned?": {ANY: NUMBER},
  "unseen?": (_BOUND, {**_BOUND, "mean worst finetuned?": NUMBER}),
  "late?": {
    "round": NUMBER,
    "joining others": {"num_clients before after": NUMBER},
  },
  "threshold?": {
    "goal class": TEXT,
    "class_number probability test test_at_half": NUMBER,
  },
  "stationarity?": {
    "round pareto_stationarity share_descending num_clients": NUMBER,
    "blocking": LIST,
  },
  "coefficient_change?": NUMBER,
  "privacy?": {"epsilon delta": NUMBER, "assumption": TEXT, "left_out": LIST},
}


def problem(
  content: object, shape: _Shape = _SUMMARY, name: str = ""
) -> str | None:
  """Returns why `content` does not have the shape of a summary, or None.

  In recursive calls, `content` is the entry `name` of the summary.
  """
  if isinstance(shape, str):
    fits = isinstance(content, _TYPES[shape])
    return None if fits else f"its {name} is not a {shape}"
  if not isinstance(content, Mapping):
    return f"its {name} is not an object"
  if isinstance(shape, tuple):
    shape = next((s for s in shape if content.keys() <= _names(s)), shape[-1])
  for part, of_part in _parts(shape):
    known = part.removesuffix(_OPTIONAL)
    if part == known != ANY and part not in content:
      return f"it lacks {_path(name, part)}"
    for found in content if part == ANY else content.keys() & {known}:
      if wrong := problem(content[found], of_part, _path(name, found)):
        return wrong
  return None


def _path(name: str, part: str) -> str:
  return f"{name}.{part}" if name else part


def _parts(shape: _Object) -> Sequence[tuple[str, _Shape]]:
  """Returns the name and the shape of each entry of an object."""
  return [
    (name, part) for names, part in shape.items() for name in names.split()
  ]


def _names(shape: _Object) -> set[str]:
  return {name.removesuffix(_OPTIONAL) for name, _ in _parts(shape)}
