#!/bin/bash
# The completion scripts complete, and the man page is accepted by the tools that format it.
#   completion_test.sh VITRINE
set -euo pipefail
vitrine="$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "completion_test: $*" >&2; exit 1; }
cd "$work"
touch tok512.bin "a name"
for shell in bash zsh fish; do "$vitrine" completion $shell >"vitrine.$shell"; done
"$vitrine" man >vitrine.1

# shellcheck disable=SC1091
source ./vitrine.bash
complete -p vitrine >/dev/null || fail "bash knows no completion for vitrine"
# What bash offers to complete the last of the words of a command line.
offers() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _vitrine
  printf '%s|' "${COMPREPLY[@]}"
}
expect() {
  local wanted="$1" got
  shift
  got=$(offers "$@")
  [[ "|$got" == $wanted ]] || fail "$*: expected $wanted, got |$got"
}
expect '|generate|' vitrine gen
expect '|--max-tokens|' vitrine generate --max
expect '*|--tokenizer|*' vitrine generate --
expect '*|--version|*' vitrine --
expect '|tok512.bin|' vitrine generate --tokenizer tok
expect '|a name|' vitrine generate --tokenizer 'a n'
expect '|tok512.bin|' vitrine generate tok
expect '|f32|f16|' vitrine trace --kv f
expect '||' vitrine generate --threads ''
expect '*|--sites|*' vitrine trace generate --
# All commands of --help are offered, hidden ones are not.
for command in $("$vitrine" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\{1,\}\) .*/\1/p'); do
  expect "*|$command|*" vitrine ''
done
[[ "|$(offers vitrine '')" != *"|completion|"* ]] || fail "a hidden command is offered"

tool() { command -v "$1" >/dev/null || { echo "completion_test: $1 is missing, not tested"; return 1; }; }
if tool zsh; then
  zsh -n vitrine.zsh
  cp vitrine.zsh _vitrine  # where compinit looks for it
  # Prints the line $1 after Tab is pressed in an interactive zsh.
  cat >complete.zsh <<'ZSH'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PROMPT=""; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; echo READY$((1 + 1))'
while zpty -r shell line; do [[ $line == *READY2* ]] && break; done
zpty -n -w shell "$1"$'\t\C-aecho GOT:\C-e:END\n'
while zpty -r shell line; do [[ $line == *GOT:vitrine*:END* && $line != *echo* ]] && break; done
print -r -- "$line"
ZSH
  completes() {
    [[ "$(timeout 60 zsh complete.zsh "$1")" == *"GOT:$2:END"* ]] || fail "zsh does not complete $1 to $2"
  }
  completes 'vitrine gen' 'vitrine generate'
  completes 'vitrine generate --max' 'vitrine generate --max-tokens'
  completes 'vitrine generate --tokenizer tok' 'vitrine generate --tokenizer tok512.bin'
  completes 'vitrine trace --kv b' 'vitrine trace --kv bf16'
fi
if tool fish; then
  fish -n vitrine.fish
  [[ "$(fish -c 'source vitrine.fish; complete -C "vitrine gen"')" == generate* ]] || fail "fish does not complete"
  [[ "$(fish -c 'source vitrine.fish; complete -C "vitrine generate --tokenizer tok"')" == *tok512.bin* ]] ||
    fail "fish does not complete files"
fi
if tool groff; then
  warnings=$(groff -man -ww -z vitrine.1 2>&1)
  [ -z "$warnings" ] || fail "groff: $warnings"
  [[ "$(groff -man -Tutf8 vitrine.1)" == *"instruction set"* ]] || fail "the page lacks its last sections"
fi
if tool mandoc; then
  if mandoc -Tlint -Werror vitrine.1 | grep -E 'ERROR|UNSUPP'; then fail mandoc; fi
fi
for word in NAME SYNOPSIS generate --tokenizer 'EXIT STATUS'; do
  grep -qF -- "$(printf '%s' "$word" | sed 's/-/\\-/g')" vitrine.1 || fail "the man page lacks $word"
done
