"""Tests that files and logs are in UTF-8, whatever the system's encoding."""

import os
import subprocess
import sys

_SCRIPT = """
import locale, pathlib, sys
from tff_fair.experiments.sweeps import jobs, sweep_file
from tff_fair.files import atomic

assert locale.getpreferredencoding(False) != "UTF-8"
folder = pathlib.Path(sys.argv[1])
title = sweep_file.read(folder / "sweep.toml").title
atomic.write(folder / "page.html", title)
jobs.write_output_to(folder / "run.log")
print(title)
"""


def test_files_in_a_system_of_ascii(tmp_path):
  title = "Größe ± 1°"
  (tmp_path / "sweep.toml").write_bytes(
    f'title = "{title}"\n[[methods]]\nalgorithm = "fedavg"\n'.encode()
  )
  variables = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
  ended = subprocess.run(
    [sys.executable, "-c", _SCRIPT, tmp_path],
    env={**os.environ, **variables},
    stderr=subprocess.PIPE,
    check=False,
  )
  assert ended.returncode == 0, ended.stderr.decode()
  assert (tmp_path / "page.html").read_bytes().decode() == title
  assert (tmp_path / "run.log").read_bytes().decode() == f"{title}\n"
