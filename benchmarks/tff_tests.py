"""Runs the tests of TensorFlow Federated in this project's contexts.

Each test file in a checkout of TFF runs in a separate process, once for each
context:

  theirs  TFF's own executors, with the tests unchanged.
  ours    `tff_fair.runtime.use_local()`, which turns a computation into one
          graph at its first call if possible.
  parts   `use_local(clients_per_part=1)`, which cuts a computation into parts
          of one client.

The program lists tests whose outcome differs from that in TFF's own context,
with their messages. The files import the installed TFF; only the tests, and
helpers that are not in any installed package, come from the checkout.

  python -m benchmarks.tff_tests --tests=DIR [--match=learning/*] [--jobs=1]

DIR has the folder tensorflow_federated, preferably of the installed version.
The exit status is 1 if an outcome differs.
"""

import argparse
import concurrent.futures
import fnmatch
import functools
import importlib
import importlib.util
import json
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec

THEIRS, OURS, PARTS = CONTEXTS = ("theirs", "ours", "parts")
_THIS = "benchmarks.tff_tests"
_PACKAGE = "tensorflow_federated"
# The functions by which tests choose a context, and whether this context
# supports secure sums.
_CHOICES = {
  "set_sync_local_cpp_execution_context": False,
  "set_sync_test_cpp_execution_context": True,
}
_PASSED, _SKIPPED, _FILE = "passed", "skipped", "the file"
_LONGEST_TEXT = 500

# The outcome of each test by name: `_PASSED`, `_SKIPPED`, or an error message.
Outcomes = Mapping[str, str]


class _CheckoutFinder:
  """Finds TFF modules that are not in any installed package."""

  def __init__(self, checkout: pathlib.Path) -> None:
    self._checkout = checkout

  def find_spec(
    self, name: str, path: object = None, target: object = None
  ) -> ModuleSpec | None:
    del path, target
    if name.partition(".")[0] != _PACKAGE:
      return None
    place = self._checkout.joinpath(*name.split("."))
    files = (place / "__init__.py", place.with_suffix(".py"))
    file = next((f for f in files if f.is_file()), None)
    if file is None:
      return None
    folders = [str(place)] if file.parent == place else None
    return importlib.util.spec_from_file_location(
      name, file, submodule_search_locations=folders
    )


def run_here(
  checkout: pathlib.Path, file: pathlib.Path, context: str, log: pathlib.Path
) -> None:
  """Runs a test file in this process; does not return."""
  # TFF stops its worker with SIGINT, and waits for its end. A background script
  # ignores SIGINT, and its worker would inherit that.
  signal.signal(signal.SIGINT, signal.default_int_handler)
  # Append the finder, so that Python searches installed modules first.
  sys.meta_path.append(_CheckoutFinder(checkout))
  # tff_fair also makes sure that TFF's own worker ends with the program.
  importlib.import_module("tff_fair")
  importlib.import_module(f"{_PACKAGE}.python.core.backends.test")
  if context != THEIRS:
    _replace_contexts(1 if context == PARTS else None)
  # TFF's and TensorFlow's tests run with absltest, which has this flag.
  sys.argv = [str(file), f"--xml_output_file={log}"]
  runpy.run_path(str(file), run_name="__main__")


def _replace_contexts(clients_per_part: int | None) -> None:
  """Replaces the functions by which tests choose a TFF context."""
  from tff_fair import runtime  # noqa: PLC0415

  for name, module in [*sys.modules.items()]:
    if name.partition(".")[0] == _PACKAGE:
      for choice, secure_sums in _CHOICES.items():
        if hasattr(module, choice):
          use = functools.partial(
            runtime.use_local,
            clients_per_part=clients_per_part,
            simulate_secure_sums=secure_sums,
          )
          setattr(module, choice, use)


def outcomes(
  checkout: pathlib.Path, file: pathlib.Path, context: str, timeout: float
) -> Outcomes:
  """Returns the outcomes of a test file, run in a separate process."""
  with tempfile.TemporaryDirectory() as folder:
    log, output_path = (
      pathlib.Path(folder, "log.xml"),
      pathlib.Path(folder, "said"),
    )
    order = [f"--tests={checkout}", f"--one={file}", f"--context={context}"]
    try:
      # Write the output to a file; a pipe would be open until all workers end.
      with output_path.open("wb") as output:
        ended = subprocess.run(
          [sys.executable, "-m", _THIS, *order, f"--log={log}"],
          stdout=output,
          stderr=subprocess.STDOUT,
          timeout=timeout,
          check=False,
        )
    except subprocess.TimeoutExpired:
      return {_FILE: f"did not end in {timeout:g} s"}
    if not log.exists():
      text = _end(output_path.read_text(errors="replace"))
      return {_FILE: f"ended with status {ended.returncode}: {text}"}
    return _read(log)


def _read(log: pathlib.Path) -> Outcomes:
  """Returns the outcomes in a log of absltest."""
  # The XML is trusted, since our own child process has written it.
  tree = xml.etree.ElementTree.parse(log)
  found = {}
  for case in tree.iter("testcase"):
    name = f"{case.get('classname')}.{case.get('name')}"
    problems = [*case.iter("failure"), *case.iter("error")]
    if problems:
      found[name] = _end(problems[0].text or problems[0].get("message") or "")
    else:
      skipped = case.get("status") != "run" or case.find("skipped") is not None
      found[name] = _SKIPPED if skipped else _PASSED
  return found


def _end(text: str) -> str:
  return text.strip()[-_LONGEST_TEXT:]


def differences(theirs: Outcomes, others: Outcomes) -> Mapping[str, str]:
  """Maps each test whose outcomes differ to a text with both outcomes."""

  def kind(outcome: str) -> str:
    return outcome if outcome in (_PASSED, _SKIPPED) else "failed"

  missing = "did not run"
  found = {}
  for name in {**theirs, **others}:
    before, after = theirs.get(name, missing), others.get(name, missing)
    if kind(before) != kind(after):
      found[name] = f"{kind(before)} in TFF's own context, here: {after}"
  return found


def _report(file: str, found: Mapping[str, Outcomes]) -> bool:
  """Prints the outcomes of a file; returns whether all contexts agree."""
  theirs, *others = found.values()
  numbers = [
    f"{context} {sum(o == _PASSED for o in of_context.values())}"
    for context, of_context in found.items()
  ]
  print(
    f"{file}: {len(theirs)} tests; passed: {', '.join(numbers)}", flush=True
  )
  agree = True
  for context, of_context in zip([*found][1:], others, strict=True):
    for name, text in differences(theirs, of_context).items():
      agree = False
      print(f"  {context}: {name}: {text}", flush=True)
  return agree


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the tests; returns the exit status."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--tests", type=pathlib.Path, required=True)
  parser.add_argument("--match", action="append", help="As learning/*mean*.")
  parser.add_argument("--jobs", type=int, default=1)
  parser.add_argument("--timeout", type=float, default=900.0)
  parser.add_argument("--json", type=pathlib.Path, help="Takes all outcomes.")
  for name, kind in (("one", pathlib.Path), ("log", pathlib.Path)):
    parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
  parser.add_argument("--context", choices=CONTEXTS, help=argparse.SUPPRESS)
  args = parser.parse_args(argv)
  checkout = args.tests.expanduser().resolve()
  if args.one is not None:
    run_here(checkout, args.one, args.context, args.log)
    return 0
  top = checkout / _PACKAGE / "python"
  files = [
    path
    for path in sorted(top.rglob("*_test.py"))
    if args.match is None
    or any(fnmatch.fnmatch(str(path.relative_to(top)), m) for m in args.match)
  ]
  if not files:
    parser.error(f"no matching *_test.py below {top}")
  everything = {}
  agree = True
  with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:

    def of_file(path: pathlib.Path) -> Mapping[str, Outcomes]:
      return {c: outcomes(checkout, path, c, args.timeout) for c in CONTEXTS}

    for path, found in zip(files, pool.map(of_file, files), strict=True):
      name = str(path.relative_to(top))
      everything[name] = found
      agree &= _report(name, found)
      if args.json is not None:
        args.json.write_text(json.dumps(everything, indent=1))
  return 0 if agree else 1


if __name__ == "__main__":
  sys.exit(main())
