"""Compiled computations as the content of a file.

An entry is a zip file with two members for each computation: the message of
TFF, and the containers of its type as JSON. Both are data; nothing of them is
executed as it is read. The zip file knows if something in it is damaged.
"""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Mapping

import tensorflow_federated as tff

from tff_fair.runtime import native
from tff_fair.runtime.compilation_cache import containers

_CONTAINERS = ".json"


class CannotKeepError(Exception):
  """Computations that would not come back as they are."""


def write(computations: Mapping[str, native.NativeComputation]) -> bytes:
  """Returns computations as the content of a file.

  Raises:
    CannotKeepError: If `read` would not return computations of the same types.
  """
  types = {name: comp.type_signature for name, comp in computations.items()}
  try:
    found = {name: containers.of_type(t) for name, t in types.items()}
  except ValueError as error:
    raise CannotKeepError(str(error)) from error
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    for name, comp in computations.items():
      members: dict[str, bytes | str] = {
        name: comp.content(),
        f"{name}{_CONTAINERS}": json.dumps(found[name]),
      }
      for member, data in members.items():
        # Without the time of day: the same computations are the same file.
        archive.writestr(
          zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED, compresslevel=1
        )
  content = buffer.getvalue()
  if {name: c.type_signature for name, c in read(content).items()} != types:
    raise CannotKeepError("Not all types come back as they are.")
  return content


def read(content: bytes) -> dict[str, native.NativeComputation]:
  """Returns the computations of a file.

  Raises:
    Exception: If it is damaged; of the zip file's, JSON's, protobuf's or TFF's
      classes.
  """
  with zipfile.ZipFile(io.BytesIO(content)) as archive:

    def annotate(name: str, type_spec: tff.FunctionType) -> tff.FunctionType:
      found = json.loads(archive.read(f"{name}{_CONTAINERS}"))
      return containers.with_containers(type_spec, found)

    return {
      name: native.NativeComputation.read(
        archive.read(name), functools.partial(annotate, name)
      )
      for name in archive.namelist()
      if not name.endswith(_CONTAINERS)
    }
