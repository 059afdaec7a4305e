"""Damages bytes, and the files of runs, as disks, networks and people do."""

import copy
import io
import json
import os
import pathlib
import random
import zipfile
from collections.abc import Callable, Mapping

_DEEP = 20_000
_HEADER = 128  # Bytes of an npy array that tell its type and shape.
_SNIPPETS = (
  *(
    b"\0",
    b"\xff\xff\xff\xff",
    b"\xed\xa0\x80",
    b"\n\n",
    b"NaN",
    b"-1",
    b"1e999",
  ),
  *(b"9" * 5000, b"[" * _DEEP, b'{"a":' * _DEEP, b"(" * _DEEP, b"\\ud800"),
  *(b'"', b"'", b"}", b"]", b"=", b"<!ENTITY a 'b'>", b"&a;", b"null", b"1.5"),
)
_TOML = (
  *(b"[[methods]]\nalgorithm = 'fedavg'\n", b"title = 'x'\n", b"[flags]\n"),
  *(
    b"task = 'digits'\n",
    b"[grid]\nseed = [0, 1]\n",
    b"extends = 'file.toml'\n",
  ),
  *(b"hparam.gamma = [1.0, nan]\n", b"seed = " + b"[" * _DEEP, b"a = 1 b\n"),
  *(b"total_rounds = 99999999999999999999\n", b"[range]\nq = {low = 1}\n"),
  *(b"x = {" * 3000, b"\xff\xfe", b"\0", b"[search]\ntrials = 2\n", b"\n"),
  *(
    b"seed = 1979-05-27\n",
    b"dropout = '0.1'\n",
    b"--task=digits\n",
    b"--flagfile=file.toml\n",
  ),
)


def damaged(content: bytes, rng: random.Random) -> tuple[str, bytes]:
  """Returns what was done to a file's content, and the content after it."""
  name = rng.choice(["bits flipped", "truncated", *_OF_PARTS])
  for _ in range(rng.choice([1, 1, 1, 2, 5])):
    start = rng.randrange(len(content) + 1)
    if name == "bits flipped":
      content = _flipped(content, rng)
    elif name == "truncated":
      content = content[:start]
    else:
      end = min(start + rng.choice([1, 4, 64, 512, 4096]), len(content))
      part = _OF_PARTS[name](content[start:end], rng)
      content = content[:start] + part + content[end:]
  return name, content


_OF_PARTS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
  "bytes zeroed": lambda part, _: bytes(len(part)),
  "bytes at random": lambda part, rng: rng.randbytes(len(part)),
  "a part twice": lambda part, _: part + part,
  "a part missing": lambda _, __: b"",
  "another text": lambda part, rng: (
    rng.choice(_SNIPPETS) + rng.choice([part, b""])
  ),
}


def _flipped(content: bytes, rng: random.Random) -> bytes:
  flipped = bytearray(content)
  for _ in range(rng.choice([1, 2, 8]) if content else 0):
    flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
  return bytes(flipped)


def damaged_inside(content: bytes, rng: random.Random) -> tuple[str, bytes]:
  """Damages a member of a zip archive, such as npz, or the member's beginning.

  The archive's checksums fit, and the reader of the member is on its own.
  """
  with zipfile.ZipFile(io.BytesIO(content)) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
  name = rng.choice(list(members))
  end = rng.choice([_HEADER, len(members[name])])
  what, beginning = damaged(members[name][:end], rng)
  members[name] = beginning + members[name][end:]
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    for member, data in members.items():
      archive.writestr(member, data)
  return f"{what} in {name}", file.getvalue()


def toml(rng: random.Random) -> bytes:
  """Returns TOML, or flags, or nonsense."""
  return b"".join(rng.choices(_TOML, k=rng.randrange(6)))


# Damages of the tables and JSON files of a run.


Damage = Callable[[pathlib.Path, random.Random], None]

_CELLS = (
  *(b"", b"nan916", b"nan", b"-1", b"inf", b"-inf", b"1e400", b"0.5", b"True"),
  *(b"1" + b"0" * 400, b"9223372036854775808", b"4294967296", b"\xff\xfe"),
  *(b"=1+1", b'"', b"a,b", b"\xc2\xb0", b"[]", b" 7", b"1_0", b"0x10"),
)
_VALUES: tuple[object, ...] = (
  *(None, True, -1, 0.5, "text", "", [], [1], {}, {"a": 1}, 10**400),
  *(float("nan"), float("inf"), "\0", "a=b", ["a"], [None], {"a": {}}),
)


def of_run(folder: pathlib.Path, rng: random.Random) -> str:
  """Damages a table or a JSON file of a run."""
  path = rng.choice(sorted(p for p in folder.iterdir() if p.suffix in _KINDS))
  chosen = rng.choice(_KINDS[path.suffix])
  if path.stat().st_size:
    chosen(path, rng)
  return f"{chosen.__name__} in {path.name}"


def other_bytes(path: pathlib.Path, rng: random.Random) -> None:
  """Damages the content of a file."""
  path.write_bytes(damaged(path.read_bytes(), rng)[1])


def empty(path: pathlib.Path, _: random.Random) -> None:
  """Leaves nothing in a file."""
  path.write_bytes(b"")


def gone(path: pathlib.Path, _: random.Random) -> None:
  """Removes a file."""
  path.unlink()


def a_folder(path: pathlib.Path, _: random.Random) -> None:
  """Puts a folder in the place of a file."""
  path.unlink()
  path.mkdir()


def a_pipe(path: pathlib.Path, _: random.Random) -> None:
  """Puts a pipe in the place of a file: a program that opens it waits."""
  path.unlink()
  os.mkfifo(path)


def a_link_to_nothing(path: pathlib.Path, _: random.Random) -> None:
  """Puts a link to nothing in the place of a file."""
  path.unlink()
  path.symlink_to("nothing")


def another_cell(path: pathlib.Path, rng: random.Random) -> None:
  """Replaces a cell of a table, which may be a title."""
  lines = _read_table(path)
  line = rng.choice(lines)
  line[rng.randrange(len(line))] = rng.choice(_CELLS)
  _write_table(path, lines)


def another_column(path: pathlib.Path, rng: random.Random) -> None:
  """Removes a column, empties it, or writes another over it."""
  lines = _read_table(path)
  one, other = rng.choices(range(len(lines[0])), k=2)
  way = rng.randrange(3)
  for line in lines:
    if way == 0:
      del line[one]
    else:
      line[one] = b"" if way == 1 else line[other]
  _write_table(path, lines)


def other_rows(path: pathlib.Path, rng: random.Random) -> None:
  """Repeats rows, removes rows, mixes them, or gives one more cells."""
  lines = _read_table(path)
  place = rng.randrange(len(lines))
  way = rng.randrange(5)
  if way == 0:
    lines.insert(rng.randrange(len(lines)), list(lines[place]))
  elif way == 1:
    del lines[place]
  elif way == 2:
    del lines[place:]
  elif way == 3:
    lines = [lines[0], *rng.sample(lines, len(lines))]
  else:
    lines[place] += [b"7"] * rng.randint(1, 3)
  _write_table(path, lines)


def another_value(path: pathlib.Path, rng: random.Random) -> None:
  """Replaces or removes a value somewhere in a JSON file."""
  content = {"": json.loads(path.read_text())}
  place, key = content, ""
  while isinstance(place[key], dict) and place[key] and rng.random() < 0.9:
    place = place[key]
    key = rng.choice(list(place))
  if rng.random() < 0.2:
    del place[key]
  else:
    place[key] = copy.deepcopy(rng.choice(_VALUES))
  path.write_text(json.dumps(content.get("")))


def deep(path: pathlib.Path, rng: random.Random) -> None:
  """Nests JSON deeper than Python's stack."""
  depth = rng.randrange(1000, 200_000)
  path.write_text("[" * depth + "]" * depth)


def _read_table(path: pathlib.Path) -> list[list[bytes]]:
  return [line.split(b",") for line in path.read_bytes().splitlines()]


def _write_table(path: pathlib.Path, lines: list[list[bytes]]) -> None:
  path.write_bytes(b"".join(b",".join(line) + b"\r\n" for line in lines))


_OF_ALL: tuple[Damage, ...] = (
  *(other_bytes,) * 3,
  *(empty, gone, a_folder, a_pipe, a_link_to_nothing),
)
_KINDS: Mapping[str, tuple[Damage, ...]] = {
  # Those that a reader is more likely to stumble over come several times.
  ".csv": (*_OF_ALL, *(another_cell, another_column, other_rows) * 4),
  ".json": (*_OF_ALL, deep, *(another_value,) * 10),
}
