#!/usr/bin/env bash
# Installs Chromium and its driver for the tests of pages if possible, which is as
# root and with apt-get. Without them these tests are skipped, so failures here
# are not errors.

set -u

say() {
  echo "set-up of the browser: $*" >&2
}

if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
  exit 0
fi
if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
  say "not possible without root and apt-get; the tests of pages are skipped."
  exit 0
fi
say "installing chromium and chromium-driver ..."
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install --quiet --quiet --yes --no-install-recommends
  chromium chromium-driver fonts-dejavu-core)
# The package lists may be missing or too old.
if ! { timeout 180 "${install[@]}" ||
  { timeout 60 apt-get update --quiet --quiet &&
    timeout 180 "${install[@]}"; }; } </dev/null >/dev/null 2>&1; then
  say "failed; the tests of pages are skipped."
fi
exit 0
