#!/bin/bash
# Installs into a new prefix, builds examples/ with find_package as a user would, and runs them.
#   install_test.sh SOURCE BUILD
set -euo pipefail
source="$1" build="$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }
expect() { [[ "$2" == $3 ]] || fail "$1: expected $3, got $2"; }

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"  # an installed tree can be moved
prefix="$work/moved"
[ -z "$(ls "$prefix/include" | grep -vxE 'vitrine|vitrine_c.h')" ] || fail "include/ holds more than vitrine and vitrine_c.h"
if grep -rnE '#include "|fmt/|nlohmann' "$prefix/include"; then fail "a header needs more than the standard library"; fi
for file in share/man/man1/vitrine.1.gz share/bash-completion/completions/vitrine share/doc/vitrine/LICENSE; do
  [ -s "$prefix/$file" ] || fail "$file is missing"
done

cmake -S "$source/examples" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wconversion -Wshadow -Werror" >"$work/log" || { cat "$work/log"; fail "configure"; }
cmake --build "$work/build" -j 2 >"$work/log" 2>&1 || { cat "$work/log"; fail "build"; }
for example in "$source"/examples/*.cpp; do
  [ "$(wc -l <"$example")" -lt 40 ] || fail "$example is no longer short"
done

cd "$work"
# The same with pkg-config alone. It would drop -I for a system folder; the prefix is not one.
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
read -ra flags <<<"$(pkg-config --cflags --libs vitrine)"
"${CXX:-g++}" -std=c++20 "$source/examples/predict.cpp" "${flags[@]}" -o predict || fail "pkg-config: build"
expect "pkg-config, version" "vitrine $(pkg-config --modversion vitrine) " \
  "$("$prefix/bin/vitrine" --version | sed 's/(.*//')"
# The C library. Its users need nothing else.
read -ra flags <<<"$(pkg-config --cflags --libs vitrine-c)"
[[ " ${flags[*]} " != *" -lfmt "* ]] || fail "vitrine-c: a user links more than libvitrine_c"
"${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror "$source/examples/c/generate.c" "${flags[@]}" -o generate_c ||
  fail "vitrine-c: build"
[ -e "$prefix/lib/libvitrine_c.so.1" ] || fail "lib/libvitrine_c.so.1 is missing"
model="$prefix/share/vitrine/models/default"
expect "predict, lines" "$(build/predict "$model" "Once" | wc -l)" 5
expect "predict, most likely first" "$(build/predict "$model" "Once" | sort -grs -k1,1)" "$(build/predict "$model" "Once")"
expect "predict, by pkg-config" "$(./predict "$model" "Once")" "$(build/predict "$model" "Once")"
expect generate "$(build/generate "$model" "Once" | tail -1)" "* tokens, ended by @(length|stop)"
expect "C" "$(LD_LIBRARY_PATH="$prefix/lib" ./generate_c "$model" "Once")" "*\"finish_reason\":*"
expect read_site "$(build/read_site "$model" "Hi" 'blocks.0.attn.hook_z')" \
  "blocks.0.attn.hook_z \[ * \] last value *, silenced *"
expect "watch_site, sites" "$(build/watch_site "$model" "Hi" 'blocks.0.hook_mlp_out' | grep -c '^blocks.0.hook_mlp_out, ')" 6
expect "watch_site, tokens" "$(build/watch_site "$model" "Hi" 'blocks.0.hook_mlp_out' | grep -c '^token ')" 5
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }}<|endoftext|>{% endfor %}' >chat.jinja
expect "chat, a line for each line" "$(printf 'Hi\nAnd then?\n' | build/chat "$model" chat.jinja | grep -c .)" "[1-9]*"
expect "chat, no template" "$(echo Hi | build/chat "$model" 2>&1 || echo "status $?")" "*chat template*status 1"
# The program on the page is the example's.
page=$(sed -n '/^```cpp/,/^```/p' "$source/docs/chat.md" | grep -v '^```')
[[ "$(cat "$source/examples/chat.cpp")" == *"$page"* ]] || fail "docs/chat.md: its program is not that of examples/"
expect "an unknown site" "$(build/read_site "$model" "Hi" nope 2>&1 || echo "status $?")" "*nope*status 1"
expect "a missing model" "$(build/predict /no/such/model x 2>&1 || echo "status $?")" "*/no/such/model*status 1"
expect "the installed program" "$("$prefix/bin/vitrine" generate Hi --max-tokens 2 --json 2>/dev/null)" '*"prompt_ids"*'

if [ -z "${VITRINE_DATA:-}" ]; then
  echo "install_test: ran the examples on the default model only: VITRINE_DATA is unset"
  exit 0
fi
stories="$VITRINE_DATA/models/stories260K"
expect "a trained model" "$(build/generate "$stories/stories260K.bin" "Once upon a time" "$stories/tok512.bin" | head -1)" \
  ", there was a little girl named Lily.*"
