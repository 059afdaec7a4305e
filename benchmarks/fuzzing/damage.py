"""Damages bytes as disks, networks and people do."""

import io
import random
import zipfile
from collections.abc import Callable

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
  kinds: dict[str, Callable[[bytearray, random.Random], bytearray]] = {
    "bits flipped": _flip,
    "truncated": _truncate,
    "bytes zeroed": _zero,
    "bytes at random": _randomize,
    "a part twice": _repeat,
    "a part missing": _drop,
    "another text": _insert,
  }
  name = rng.choice(list(kinds))
  result = bytearray(content)
  for _ in range(rng.choice([1, 1, 1, 2, 5])):
    result = kinds[name](result, rng)
  return name, bytes(result)


def damaged_inside(content: bytes, rng: random.Random) -> tuple[str, bytes]:
  """Damages a member of a zip archive, such as npz, or the member's beginning.

  The archive's checksums fit, and the reader of the member is on its own.

  Returns:
    What was done, and the archive after it.
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


def _part(content: bytearray, rng: random.Random) -> tuple[int, int]:
  start = rng.randrange(len(content) + 1)
  size = rng.choice([1, 4, 64, 512, 4096])
  return start, min(start + size, len(content))


def _flip(content: bytearray, rng: random.Random) -> bytearray:
  for _ in range(rng.choice([1, 2, 8])):
    if content:
      content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
  return content


def _truncate(content: bytearray, rng: random.Random) -> bytearray:
  return content[: rng.randrange(len(content) + 1)]


def _zero(content: bytearray, rng: random.Random) -> bytearray:
  start, end = _part(content, rng)
  content[start:end] = bytes(end - start)
  return content


def _randomize(content: bytearray, rng: random.Random) -> bytearray:
  start, end = _part(content, rng)
  content[start:end] = rng.randbytes(end - start)
  return content


def _repeat(content: bytearray, rng: random.Random) -> bytearray:
  start, end = _part(content, rng)
  return content[:end] + content[start:]


def _drop(content: bytearray, rng: random.Random) -> bytearray:
  start, end = _part(content, rng)
  return content[:start] + content[end:]


def _insert(content: bytearray, rng: random.Random) -> bytearray:
  start, end = _part(content, rng)
  keeps = rng.random() < 0.5
  return (
    content[:start] + rng.choice(_SNIPPETS) + content[start if keeps else end :]
  )
