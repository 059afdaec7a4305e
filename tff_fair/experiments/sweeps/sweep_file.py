"""Reads the description of a sweep from a file, or from a list of methods.

A file's settings for one method override its settings for all methods; `final`
settings, such as those of the command line, override both.

A file with `extends = "base"` overrides another file: its title and its
settings override those of the base, and its methods, if it has any, replace all
methods of the base. With `extends = ["one", "two"]`, "two" overrides "one", and
the file overrides both.
"""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import setting_tables
from tff_fair.experiments.sweeps.setting_tables import Grid, Setting
from tff_fair.files import parsing

SUFFIX = ".toml"
_KEYS = ("title", "extends", "flags", "grid", "range", "search", "methods")
_WEIGHTING = "client_weighting"
_METHOD_KEYS = ("name", "algorithm", "hparam", "flags", "grid", "range")


@dataclasses.dataclass(frozen=True)
class SweptMethod:
  """A method in a sweep, with the settings of this method alone."""

  name: str
  algorithm: str
  grid: Grid
  place: str


@dataclasses.dataclass(frozen=True)
class Sweep:
  """The methods to run, and the settings of their runs."""

  title: str | None  # For tables and pages.
  methods: tuple[SweptMethod, ...]
  common: Grid  # Settings of all methods; a method's settings override them.
  final: Grid  # Settings of all methods; they override a method's settings.
  place: str  # The file or flag that describes the sweep, for errors.
  # Fields of `SearchSettings`; empty if every combination of settings runs.
  search: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @functools.cached_property
  def varying(self) -> frozenset[str]:
    """The names of common and final settings that have a grid or a range."""
    settings = (*self.common.items(), *self.final.items())
    return frozenset(name for name, setting in settings if setting.varies)

  def select_methods(self, names: Sequence[str], place: str) -> "Sweep":
    """Returns the sweep with only the methods in `names`."""
    chosen: list[SweptMethod] = []
    for name in names:
      found = [m for m in self.methods if self._is_named(m, name, place)]
      if not found:
        valid = dict.fromkeys(m.algorithm for m in self.methods)
        raise RunError(
          f"{place}={name}: is not in the file; it has {', '.join(valid)}."
        )
      chosen += found
    ordered = tuple(m for m in self.methods if m in chosen)
    return dataclasses.replace(self, methods=ordered)

  def _is_named(self, method: SweptMethod, name: str, place: str) -> bool:
    """Returns whether `name`, as a user wrote it, refers to a method."""
    if name == method.name:
      return True
    algorithm, weighting = _parse_algorithm(name, place)
    usual = Setting([RunSpec.fields()[_WEIGHTING].default], place)
    setting = {**self.common, **method.grid}.get(_WEIGHTING, usual)
    return algorithm == method.algorithm and (
      weighting is None or setting.values in ([weighting], (weighting,))
    )

  def with_defaults(self, base: RunSpec, place: str) -> "Sweep":
    """Returns the sweep, with values from `base` for settings that it omits."""
    texts = spec_text.non_default_texts(base)
    texts.pop("algorithm", None)
    settings = {name: Setting([text], place) for name, text in texts.items()}
    swept = {
      name: settings.pop(name)
      for name in texts
      if name.startswith(spec_text.HPARAM)
    }
    swept = {n: values for n, values in swept.items() if n not in self.common}
    return dataclasses.replace(
      self,
      common={**settings, **self.common},
      methods=tuple(
        dataclasses.replace(method, grid={**swept, **method.grid})
        if method.algorithm == base.algorithm
        else method
        for method in self.methods
      ),
    )


def from_methods(algorithms: Sequence[str], place: str) -> Sweep:
  """Returns a sweep of `algorithms`, each a NAME or NAME:WEIGHTING."""
  chosen = []
  for text in algorithms:
    name, weighting = _parse_algorithm(text, place)
    if weighting is None:
      chosen.append(SweptMethod(name, name, {}, place))
    else:
      grid = {_WEIGHTING: Setting([weighting], place)}
      title = methods.title(name, weighting)
      chosen.append(SweptMethod(title, name, grid, place))
  return Sweep(None, tuple(chosen), {}, {}, place)


def _parse_algorithm(text: str, place: str) -> tuple[str, str | None]:
  """Splits "NAME:WEIGHTING" into an algorithm and a client weighting.

  The weighting is None if the text names only an algorithm.
  """
  name, colon, weighting = text.rpartition(":")
  valid = RunSpec.fields()[_WEIGHTING]
  if not colon or not (valid.accepts(weighting) or methods.is_method(name)):
    return methods.canonical_name(text), None
  name = methods.canonical_name(name)
  try:
    valid.check(weighting)
  except FieldError as error:
    raise RunError(f"{place}={text}: {_WEIGHTING}: {error.problem}") from error
  if methods.is_method(name) and not methods.method(name).weighs_clients:
    raise RunError(
      f"{place}={text}: {name} does not use the weights of clients; leave "
      f":{weighting} out."
    )
  return name, weighting


def read(
  path: pathlib.Path,
  *,
  included: pathlib.Path | None = None,
  place: str | None = None,
  extending: tuple[pathlib.Path, ...] = (),
) -> Sweep:
  """Reads a sweep from its file and from the files that the file extends.

  Extended files may be in the folder `included`, too. Errors name `place`, by
  default the path; `extending` are the files that extend this one.
  """
  place = str(path) if place is None else place
  if path.resolve() in extending:
    raise RunError(f"{place}: the files extend each other in a circle.")
  try:
    content = parsing.parse_toml(path.read_bytes())
  except (OSError, ValueError) as error:
    raise RunError(f"{place}: {error}") from error
  _check_names(place, content, _KEYS)
  swept = _without_base(content, place)
  if "extends" not in content:
    if not swept.methods:
      raise RunError(f"{place}: expected one [[methods]] or more.")
    return swept
  names = content["extends"]
  others = (
    read(
      _find(name, path.parent, included, place),
      included=included,
      place=f"{place}: extends {name}",
      extending=(*extending, path.resolve()),
    )
    for name in (names if isinstance(names, list) and names else [names])
  )
  base = functools.reduce(lambda below, over: _overlay(over, below), others)
  return _overlay(swept, base)


def _without_base(content: Mapping[str, object], place: str) -> Sweep:
  """Returns a file's own sweep, without the files that it extends."""
  title = content.get("title")
  if title is not None and not isinstance(title, str):
    raise RunError(f"{place}: title must be a text, found {title!r}.")
  common = _settings(place, "[{}]", content)
  entries = content.get("methods", [])
  if not isinstance(entries, list):
    raise RunError(f"{place}: expected one [[methods]] or more.")
  swept = tuple(
    _parse_method(f"{place}: [[methods]] number {number}", entry)
    for number, entry in enumerate(entries, 1)
  )
  search = content.get("search", {})
  if not isinstance(search, dict):
    raise RunError(f"{place}: search must be a table, found {search!r}.")
  return Sweep(title, swept, common, {}, place, search)


def _settings(place: str, form: str, content: Mapping[str, object]) -> Grid:
  """Merges the tables flags, grid and range; `form` formats their names."""
  flags, grid, ranges = (
    read(f"{place}: {form.format(name)}", content.get(name, {}))
    for name, read in (
      ("flags", setting_tables.read_fixed),
      ("grid", setting_tables.read_lists),
      ("range", setting_tables.read_ranges),
    )
  )
  varying = setting_tables.merge(grid, ranges, "values of a grid")
  return setting_tables.merge(flags, varying)


def _overlay(swept: Sweep, other: Sweep) -> Sweep:
  return dataclasses.replace(
    swept,
    title=other.title if swept.title is None else swept.title,
    methods=swept.methods or other.methods,
    common={**other.common, **swept.common},
    search={**other.search, **swept.search},
  )


def _find(
  name: object, folder: pathlib.Path, included: pathlib.Path | None, place: str
) -> pathlib.Path:
  """Returns the path of the file that `extends` calls `name`."""
  if not isinstance(name, str) or not name:
    raise RunError(f"{place}: extends must name a file, found {name!r}.")
  places = [folder / name, folder / f"{name}{SUFFIX}"]
  # Only plain names refer to `included`: "../other" and "folder/other" do not.
  if included is not None and pathlib.PurePath(name).name == name:
    places.append(included / f"{name}{SUFFIX}")
  for path in places:
    # Unlike `Path.is_file`, this takes any text, even one too long for a path.
    if os.path.isfile(path):
      return path
  raise RunError(
    f"{place}: extends {name!r}, but there is no such file; give its path from "
    "the folder of this file, or the name of an included one."
  )


def _parse_method(place: str, entry: Any) -> SweptMethod:
  _check_names(place, entry, _METHOD_KEYS)
  algorithm = entry.get("algorithm")
  if isinstance(algorithm, str):
    algorithm = methods.canonical_name(algorithm)
  name = entry.get("name", algorithm)
  for key, value in (("algorithm", algorithm), ("name", name)):
    if not isinstance(value, str) or not value:
      raise RunError(f"{place}: {key} must be a text, found {value!r}.")
  place = f"{place} ({name})"
  hparams = entry.get("hparam", {})
  if not isinstance(hparams, dict):
    raise RunError(f"{place}: expected hparam.NAME = VALUE.")
  swept = {
    key: value if isinstance(value, list) else [value]
    for key, value in hparams.items()
  }
  return SweptMethod(
    name,
    algorithm,
    setting_tables.merge(
      setting_tables.read_lists(place, {"hparam": swept}),
      _settings(place, "{}", entry),
    ),
    place,
  )


def _check_names(place: str, table: object, valid: Sequence[str]) -> None:
  if not isinstance(table, dict):
    raise RunError(f"{place}: must be a table, found {table!r}.")
  for name in table:
    if name not in valid:
      raise RunError(f"{place}: unknown {name!r}; expected {', '.join(valid)}.")
