"""Recognizes kinds of files, and suggests pandas code that turns them into CSV.

The first bytes suffice, or the names of a zip file's members. Pickles are never
opened, since they can run any code.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

# The number of bytes that `of_content` needs; a tar file needs the most.
BEGINNING = 512
_PACKED = (".gz", ".bz2", ".xz", ".zip")


def strip_compression_suffix(name: str) -> pathlib.PurePath:
  """Returns a file's name without an ending such as .gz."""
  path = pathlib.PurePath(name)
  return path.with_suffix("") if path.suffix.lower() in _PACKED else path


class FileKind(NamedTuple):
  """A kind of file that is not a CSV table."""

  name: str  # The kind with its article, such as "an Excel workbook".
  # The Python call that reads such a file as a DataFrame, where `{}` is the
  # file's name; " (needs PACKAGE)" may follow. Empty if there is no such call.
  reader: str = ""
  advice: str = ""  # A sentence before the call, or instead of it.

  def problem(self, file: str) -> str:
    """Returns the error message for such a file where a table is expected."""
    call, _, needs = self.reader.partition(" (")
    stem = file.partition(".")[0] or "table"
    mend = self.advice
    if call:
      mend = (
        f"{mend}{' ' if mend else ''}Convert it to CSV in Python: "
        f"{call.format(repr(file))}.to_csv({f'{stem}.csv'!r}, "
        f"index=False){f' ({needs}' if needs else ''}."
      )
    return f"is {self.name}. {mend}".rstrip()


EXCEL = FileKind("an Excel workbook", "pandas.read_excel({}) (needs openpyxl)")
_OPEN_DOCUMENT = FileKind(
  "an OpenDocument spreadsheet", "pandas.read_excel({}) (needs odfpy)"
)
PICKLE = FileKind(
  "a Python pickle, which may run any code when it is opened, so no task opens "
  "one",
  "pandas.read_pickle({})",
  "If you trust its source:",
)
NUMPY = FileKind(
  "a file of NumPy arrays",
  advice="The task arrays reads an npz file with x, y and client.",
)
KERAS = FileKind("a Keras model", advice="Name a data file.")
_JSON_LINES = FileKind(
  "a file of JSON lines", "pandas.read_json({}, lines=True)"
)
_JSON = FileKind(
  "a JSON file", "pandas.read_json({})", "LEAF's JSON is for --task=leaf."
)
_ARCHIVE = "Unpack it, and name the file in it."

_SPSS = FileKind("an SPSS file", "pandas.read_spss({}) (needs pyreadstat)")
_STATA = FileKind("a Stata file", "pandas.read_stata({})")
_PICTURE = FileKind(
  "a picture", advice="prepare_data reads folders of pictures."
)
_OF_R = FileKind("a file of R", advice="In R, write CSV: write.csv.")
PARQUET = FileKind("a Parquet file", "pandas.read_parquet({})")

# Kinds by first bytes that may also begin a text file, which has no zero byte.
_LETTERS = {
  b"PAR1": PARQUET,
  b"ARROW1": FileKind("a Feather or Arrow file", "pandas.read_feather({})"),
  b"FEA1": FileKind("a Feather file", "pandas.read_feather({})"),
  b"ORC": FileKind("an ORC file", "pandas.read_orc({})"),
  b"$FL2": _SPSS,
  b"$FL3": _SPSS,
  b"RDX": _OF_R,
  b"Rar!": FileKind("a RAR archive", advice=_ARCHIVE),
}
# Kinds by the first bytes.
_MAGIC = {
  b"SQLite format 3\0": FileKind(
    "an SQLite database",
    "pandas.read_sql('select * from TABLE', sqlite3.connect({}))",
    "The task client_data reads those of prepare_data.",
  ),
  b"\x89HDF\r\n\x1a\n": FileKind("an HDF5 file", "pandas.read_hdf({})"),
  b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": FileKind(
    "an old Excel workbook", "pandas.read_excel({}) (needs xlrd)"
  ),
  b"<stata_dta>": _STATA,
  bytes(12) + b"\xc2\xea\x81\x60": FileKind(
    "a SAS file", "pandas.read_sas({}, format='sas7bdat')"
  ),
  b"HEADER RECORD*******LIB": FileKind(
    "a SAS transport file", "pandas.read_sas({}, format='xport')"
  ),
  b"MATLAB 5.0 MAT-file": FileKind(
    "a MATLAB file",
    advice="Read it with scipy.io.loadmat, and write CSV or npz.",
  ),
  b"X\n\0\0\0": _OF_R,
  b"\x93NUMPY": NUMPY,
  b"%PDF-": FileKind("a PDF document", advice="Export the table as CSV."),
  b"\x89PNG": _PICTURE,
  b"\xff\xd8\xff": _PICTURE,
  b"\x28\xb5\x2f\xfd": FileKind(
    "compressed with zstd", advice="Unpack it first."
  ),
  b"7z\xbc\xaf\x27\x1c": FileKind("a 7z archive", advice=_ARCHIVE),
}
# Kinds by patterns of the first bytes.
_PATTERNS = {
  # A pickle: the protocol, or the first opcodes of protocol 0.
  re.compile(rb"\x80[\x02-\x05]|ccopy_reg\n|cpandas\.|cnumpy|\([dl]p\d"): (
    PICKLE
  ),
  # A Stata file: the release, the byte order, and two fixed bytes.
  re.compile(rb"[\x66-\x73][\x01\x02]\x01\x00"): _STATA,
  re.compile(rb".{257}ustar", re.DOTALL): FileKind(
    "a tar archive", advice=_ARCHIVE
  ),
  re.compile(
    rb"(\xef\xbb\xbf)?\s*<(!doctype html|html)", re.IGNORECASE
  ): FileKind("a web page", advice="Download the file itself."),
  re.compile(rb"(\xef\xbb\xbf)?\s*<\?xml"): FileKind(
    "an XML file", "pandas.read_xml({}) (needs lxml)"
  ),
  re.compile(rb"(\xef\xbb\xbf)?\s*\{\"[^\n]*\}\s*\n\s*\{"): _JSON_LINES,
  re.compile(rb"(\xef\xbb\xbf)?\s*(\{\s*\"|\[\s*[\[{\"])"): _JSON,
}
# Kinds by the name of a zip file's member.
_MEMBERS = {
  "xl/workbook.xml": EXCEL,
  "xl/workbook.bin": FileKind(
    "an Excel workbook", "pandas.read_excel({}) (needs pyxlsb)"
  ),
  "content.xml": _OPEN_DOCUMENT,
  "model.weights.h5": KERAS,
}


def of_content(beginning: bytes) -> FileKind | None:
  """Returns the kind that the first bytes indicate; None for text."""
  for magic, kind in _LETTERS.items():
    if beginning.startswith(magic) and (
      b"\0" in beginning or beginning == magic
    ):
      return kind
  for magic, kind in _MAGIC.items():
    if beginning.startswith(magic):
      return kind
  for pattern, kind in _PATTERNS.items():
    if pattern.match(beginning):
      return kind
  return None


def of_members(names: Sequence[str]) -> FileKind:
  """Returns the kind of a zip file with several members or none."""
  for name, kind in _MEMBERS.items():
    if name in names:
      return kind
  if names and all(name.endswith(".npy") for name in names):
    return NUMPY
  return FileKind(f"a zip archive of {len(names):,} files", advice=_ARCHIVE)
