#!/bin/sh
# The end of `make run`: shows the default model's predictions and a continuation, and lists commands to try next.
set -eu
vitrine="$1"
"$vitrine" --version

# show COMMAND …: prints the command as a user would type it, and runs it.
show() {
  printf '\n$ vitrine'
  for word in "$@"; do
    case "$word" in *\ *) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\n'
  "$vitrine" "$@"
}
show predict "Once upon a time" --top 10
show generate "Once upon a time" --max-tokens 100 --seed 3

printf '\n\nNext:\n'
next() { printf '  %-62s %s\n' "$1" "$2"; }
next "$vitrine generate \"One day, a cat\"" "continue your own text with the same model (models/default/README.md)"
next "$vitrine generate MODEL \"some text\"" "your own model: a Hugging Face folder, a .gguf or a llama2.c file"
next "$vitrine trace \"some text\" --out values.safetensors" "every intermediate value of a forward pass"
next "$vitrine example" "every number of a training step of a tiny model"
next "$vitrine info gemma-2-2b" "all shapes, parameters and costs of a model"
next "$vitrine init gpt2 my-gpt2" "a new model with random weights"
next "$vitrine COMMAND --help" "the options of a command, and examples"
