#!/bin/bash
# Uses vitrine as a part of another project, by add_subdirectory and by FetchContent: consumer_test.sh SOURCE
# Checks that the project gets the library and its headers, but no tests, no program, no flags and no build type.
set -euo pipefail
source="$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "consumer_test: $*" >&2; exit 1; }

for way in add_subdirectory FetchContent; do
  mkdir "$work/$way"
  {
    echo 'cmake_minimum_required(VERSION 3.21)'
    echo 'project(consumer LANGUAGES CXX)'
    if [ $way = add_subdirectory ]; then
      echo "add_subdirectory($source vitrine)"
    else
      echo 'include(FetchContent)'
      echo "FetchContent_Declare(vitrine SOURCE_DIR $source)"
      echo 'FetchContent_MakeAvailable(vitrine)'
    fi
    echo "add_executable(consumer $source/examples/predict.cpp)"
    echo 'target_link_libraries(consumer PRIVATE vitrine::vitrine)'
  } >"$work/$way/CMakeLists.txt"
  build="$work/$way/build"
  cmake -G Ninja -S "$work/$way" -B "$build" >"$work/log" 2>&1 || { cat "$work/log"; fail "$way: configure"; }
  targets=$(ninja -C "$build" -t targets all)
  for target in libvitrine.a consumer; do grep -q "$target: " <<<"$targets" || fail "$way: no target $target"; done
  for name in _tests _bench product cli/main.cpp; do
    if grep "$name" <<<"$targets"; then fail "$way: a target of vitrine's own, $name"; fi
  done
  grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$build/CMakeCache.txt" || fail "$way: the build type is changed"
  object=$(grep -o '^[^ ]*predict.cpp.o' <<<"$targets")
  command=$(ninja -C "$build" -t commands "$object" | tail -1)
  if [[ $command == *-W* || $command == *-ffp-contract* ]]; then fail "$way: flags of vitrine: $command"; fi
  if [[ $(ninja -C "$build" -t commands consumer) == *-Werror* ]]; then fail "$way: warnings are errors"; fi
  # The whole library takes minutes, and the test Install links it. Here the headers are enough.
  ninja -C "$build" "$object" >"$work/log" 2>&1 || { cat "$work/log"; fail "$way: compile"; }
done
