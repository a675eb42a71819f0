#!/bin/sh
# What `make run` shows: what the default model expects after each token of a prompt, a continuation, and what to try.
set -eu
vitrine="$1"
"$vitrine" --version

# show COMMAND …: the command as one would type it, then what it prints.
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
next "$vitrine generate \"One day, a cat\"" "the same model goes on with a text of yours (models/default/README.md)"
next "$vitrine generate MODEL \"some text\"" "a Hugging Face folder, a .gguf or a llama2.c file of yours"
next "$vitrine trace \"some text\" --out values.safetensors" "every intermediate value of a forward"
next "$vitrine example" "every number of a forward, a backward and an update of a tiny model"
next "$vitrine info gemma-2-2b" "every shape, every parameter, and what a run costs"
next "$vitrine init gpt2 my-gpt2" "random weights of a published architecture"
next "$vitrine COMMAND --help" "options and examples of a command"
