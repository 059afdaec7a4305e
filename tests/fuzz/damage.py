"""Damages bytes, and the files of runs, as disks, networks and people do."""

import copy
import io
import json
import os
import pathlib
import random
import zipfile
from collections.abc import Callable, Mapping

_HEADER = 128  # Size of the header of an npy array.
_DEEP = 20_000
_SNIPPETS = (
  *(b"\0", b"\xff\xff\xff\xff", b"\xed\xa0\x80", b"\n\n", b"NaN", b"-1"),
  *(b"9" * 5000, b"[" * _DEEP, b'{"a":' * _DEEP, b"(" * _DEEP, b"\\ud800"),
  *(b'"', b"'", b"}", b"]", b"=", b"<!ENTITY a 'b'>", b"&a;", b"null", b"1.5"),
)
_OF_PARTS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
  "bytes zeroed": lambda part, _: bytes(len(part)),
  "bytes at random": lambda part, rng: rng.randbytes(len(part)),
  "a part twice": lambda part, _: part + part,
  "a part missing": lambda _, __: b"",
  "another text": lambda part, rng: (
    rng.choice(_SNIPPETS) + rng.choice([part, b""])
  ),
}


def damaged(content: bytes, rng: random.Random) -> bytes:
  """Returns the content of a file with some of its bytes changed."""
  name = rng.choice(["bits flipped", "truncated", *_OF_PARTS])
  for _ in range(rng.choice([1, 1, 1, 2, 5])):
    start = rng.randrange(len(content) + 1)
    if name == "bits flipped":
      flipped = bytearray(content)
      for _ in range(rng.choice([1, 2, 8]) if content else 0):
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
      content = bytes(flipped)
    elif name == "truncated":
      content = content[:start]
    else:
      end = min(start + rng.choice([1, 4, 64, 512, 4096]), len(content))
      part = _OF_PARTS[name](content[start:end], rng)
      content = content[:start] + part + content[end:]
  return content


def damaged_inside(content: bytes, rng: random.Random) -> bytes:
  """Damages a member of a zip archive, and keeps the checksums valid."""
  with zipfile.ZipFile(io.BytesIO(content)) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
  name = rng.choice(list(members))
  end = rng.choice([_HEADER, len(members[name])])
  members[name] = damaged(members[name][:end], rng) + members[name][end:]
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    for member, data in members.items():
      archive.writestr(member, data)
  return file.getvalue()


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
  """Damages a table or a JSON file of a run, and returns how."""
  path = rng.choice(sorted(p for p in folder.iterdir() if p.suffix in _KINDS))
  chosen = rng.choice(_KINDS[path.suffix])
  if path.stat().st_size:
    chosen(path, rng)
  return f"{chosen.__name__} in {path.name}"


def _other_bytes(path: pathlib.Path, rng: random.Random) -> None:
  path.write_bytes(damaged(path.read_bytes(), rng))


def _empty(path: pathlib.Path, _: random.Random) -> None:
  path.write_bytes(b"")


def _something_else(path: pathlib.Path, rng: random.Random) -> None:
  path.unlink()
  # Nothing, a folder, a pipe, which blocks a program that opens it, or a link.
  make = rng.choice([None, os.mkdir, os.mkfifo, _link_to_nothing])
  if make is not None:
    make(path)


def _link_to_nothing(path: pathlib.Path) -> None:
  path.symlink_to("nothing")


def _another_cell(path: pathlib.Path, rng: random.Random) -> None:
  lines = _read_table(path)
  line = rng.choice(lines)
  line[rng.randrange(len(line))] = rng.choice(_CELLS)
  _write_table(path, lines)


def _another_column(path: pathlib.Path, rng: random.Random) -> None:
  lines = _read_table(path)
  one, other = rng.choices(range(len(lines[0])), k=2)
  way = rng.randrange(3)
  for line in lines:
    if way == 0:
      del line[one]
    else:
      line[one] = b"" if way == 1 else line[other]
  _write_table(path, lines)


def _other_rows(path: pathlib.Path, rng: random.Random) -> None:
  lines = _read_table(path)
  place = rng.randrange(len(lines))
  match rng.randrange(5):
    case 0:
      lines.insert(rng.randrange(len(lines)), list(lines[place]))
    case 1:
      del lines[place]
    case 2:
      del lines[place:]
    case 3:
      lines = [lines[0], *rng.sample(lines, len(lines))]
    case 4:
      lines[place] += [b"7"] * rng.randint(1, 3)
  _write_table(path, lines)


def _another_value(path: pathlib.Path, rng: random.Random) -> None:
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


def _deep(path: pathlib.Path, rng: random.Random) -> None:
  depth = rng.randrange(1000, 200_000)
  path.write_text("[" * depth + "]" * depth)


def _read_table(path: pathlib.Path) -> list[list[bytes]]:
  return [line.split(b",") for line in path.read_bytes().splitlines()]


def _write_table(path: pathlib.Path, lines: list[list[bytes]]) -> None:
  path.write_bytes(b"".join(b",".join(line) + b"\r\n" for line in lines))


_OF_ALL: tuple[Damage, ...] = (
  *(*(_other_bytes,) * 3, _empty, *(_something_else,) * 4),
)
_KINDS: Mapping[str, tuple[Damage, ...]] = {
  # Damages that a reader is more likely to miss are listed several times.
  ".csv": (*_OF_ALL, *(_another_cell, _another_column, _other_rows) * 4),
  ".json": (*_OF_ALL, _deep, *(_another_value,) * 10),
}
