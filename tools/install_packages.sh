#!/bin/sh
# Installs the Debian packages of the lists given (none: tools/packages.txt) that are missing. Asks for nothing where all
# are there.
set -eu
[ $# -gt 0 ] || set -- "$(dirname "$0")/packages.txt"
missing=""
for package in $(cat "$@"); do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "make: these packages are missing, and there is no apt-get to install them:$missing" >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "make: run as root, or install:$missing" >&2; exit 1; }
  sudo="sudo"
fi
echo "Installing:$missing"
$sudo apt-get update -q
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
