#!/bin/sh
# Installs the missing Debian packages of the given lists (without arguments: tools/packages.txt). Needs neither root nor
# the network if none is missing.
set -eu
[ $# -gt 0 ] || set -- "$(dirname "$0")/packages.txt"
missing=""
for package in $(cat "$@"); do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "make: install these packages; apt-get, which make would use, is missing:$missing" >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "make: run make as root, or install these packages:$missing" >&2; exit 1; }
  sudo="sudo"
fi
echo "Installing with apt-get:$missing"
# If another apt runs, apt-get waits for it and says so on a terminal.
apt="apt-get -q -o DPkg::Lock::Timeout=600"
$sudo $apt update
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends $missing
