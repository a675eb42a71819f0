#!/bin/sh
# What `make run` shows: the default model continues a text.
set -eu
vitrine="$1"
"$vitrine" --version
prompt="Once upon a time"
printf '\n$ vitrine generate "%s" --max-tokens 48 --seed 1\n' "$prompt"
"$vitrine" generate "$prompt" --max-tokens 48 --seed 1
printf '\n\nNext:\n'
printf '  %s generate MODEL "some text"              a Hugging Face folder or a llama2.c file of yours\n' "$vitrine"
printf '  %s trace "some text" --out values.safetensors   every intermediate value of a forward\n' "$vitrine"
printf '  %s --help\n' "$vitrine"
