# Sourced by ./train and ./test: installs requirements.txt into .venv, and the
# project itself as an editable install; also requirements-dev.txt if
# `with_dev=true`.
#
# Sets `root`, the project's folder, and `python`, the environment's interpreter.
# The environment is created once, and created again if requirements.txt changes
# or an earlier set-up was interrupted. The project is installed again if
# pyproject.toml changes. Set PYTHON to choose the Python 3.11 for the
# environment.
#
# Never call these functions where bash suspends `set -e`, as in `set_up || …`.

set -euo pipefail

root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
python=$venv/bin/python

# Written first: marks the folder as ours, to be deleted and created again.
owned=$venv/.made-by-setup
# Written last: copies of the files that the installation is based on.
installed=$venv/.installed-requirements.txt
installed_dev=$venv/.installed-requirements-dev.txt
installed_project=$venv/.installed-pyproject.toml

setup_fail() {
  echo "set-up: $*" >&2
  exit 1
}

has_requirements() {
  [[ -x $python ]] && cmp -s "$root/requirements.txt" "$installed"
}

has_dev() {
  cmp -s "$root/requirements-dev.txt" "$installed_dev"
}

has_project() {
  cmp -s "$root/pyproject.toml" "$installed_project"
}

# Prints the first Python 3.11 of $PYTHON, or of the PATH.
find_python() {
  local candidates candidate
  if [[ -n ${PYTHON:-} ]]; then
    candidates=$PYTHON
  else
    candidates=$(type -ap python3.11 python3 python || true)
  fi
  while read -r candidate; do
    # With .venv active, the first is in the environment to be replaced.
    [[ $candidate != "$venv"/* ]] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
      </dev/null >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done <<<"$candidates"
  setup_fail "Python 3.11 is needed${PYTHON:+, but PYTHON=$PYTHON is not one};" \
    "install it, or set PYTHON to its path."
}

# Creates an environment with pip, even if the venv module has no pip.
make_venv() {
  local base=$1
  "$base" -m venv "$venv" >/dev/null 2>&1 && return
  "$base" -m venv --without-pip "$venv" >/dev/null 2>&1 &&
    "$base" -m pip --python "$python" install --quiet pip && return
  setup_fail "$base cannot make a virtual environment;" \
    "install its venv module (python3.11-venv on Debian and Ubuntu)."
}

install_packages() {
  "$python" -m pip install --quiet --no-input --use-pep517 --no-compile \
    --no-deps -r "$root/$1" ||
    setup_fail "the packages could not be installed; see above, then try again."
  # Compiles on all processors, unlike pip, and skips packages' tests. Fails for
  # templates in some packages that are not Python, which is fine.
  "$python" -m compileall -q -j 0 -x '/tests?/' "$venv/lib" >/dev/null 2>&1 ||
    true
}

install_requirements() {
  local base
  if [[ -n $(ls -A "$venv" 2>/dev/null) && ! -e $owned ]]; then
    setup_fail "$venv was not made by this project; move it away."
  fi
  base=$(find_python)
  echo "Installing requirements.txt into .venv; this takes a minute or two ..." >&2
  rm -rf "$venv"
  mkdir "$venv"
  touch "$owned"
  make_venv "$base"
  install_packages requirements.txt
  cp "$root/requirements.txt" "$installed"
}

install_dev() {
  echo "Installing requirements-dev.txt into .venv ..." >&2
  install_packages requirements-dev.txt
  cp "$root/requirements-dev.txt" "$installed_dev"
}

# Installs `tff_fair` and the programs tff-fair-* into the environment.
install_project() {
  # requirements.txt has all that the build needs, so nothing is downloaded.
  "$python" -m pip install --quiet --no-input --no-index --no-deps \
    --no-build-isolation --editable "$root" ||
    setup_fail "the project could not be installed; see above, then try again."
  cp "$root/pyproject.toml" "$installed_project"
  printf 'To enter the environment: source %q\n' "$venv/bin/activate" >&2
}

set_up() {
  if ! has_requirements; then install_requirements; fi
  if ${with_dev:-false} && ! has_dev; then install_dev; fi
  if ! has_project; then install_project; fi
}

# One set-up at a time. The lock ends with the subshell, however it ends.
(
  command -v flock >/dev/null && flock 9
  set_up
) 9<"$root/requirements.txt"
