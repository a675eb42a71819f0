// The options of dictionaries of features.
#include "cli/eval_dictionaries.h"
#include "cli/options.h"

namespace vitrine::cli {
namespace {

void add_paths(Command& command, Options& o) {
  add_list(command, "--sae", o.dictionaries,
           "Attach the sparse autoencoder or transcoder PATH, a folder of any format of docs/features.md, as "
           "[NAME=]PATH[@SITE]; may be given several times");
}

void add_skipped_tokens(Command& command, Options& o, const char* description) {
  command.add_option("--sae-skip", o.skipped_tokens, description)->type_name("TOKENS");
}

constexpr const char* kSkippedTokens =
    "Tokens at which dictionaries do nothing: special, none or ids as in 1,2 (default: none)";

}  // namespace

void add_dictionaries(Command& command, Options& o) {
  add_paths(command, o);
  add_choice(command, "--sae-use", o.dictionary_use, {"read", "error", "replace"},
             "What a dictionary does to its site: nothing, keep the error of its reconstruction, or replace the value "
             "(default: read, and error once one of its values is written)");
  add_skipped_tokens(command, o, kSkippedTokens);
}

void add_read_dictionaries(Command& command, Options& o) {
  add_paths(command, o);
  add_skipped_tokens(command, o, kSkippedTokens);
}

void add_measured_dictionaries(Command& command, Options& o) {
  add_paths(command, o);
  o.skipped_tokens = "special";
  add_skipped_tokens(command, o,
                     "With --sae: tokens that do not count, and at which dictionaries do nothing: special, none or ids "
                     "as in 1,2 (default: special)");
}

}  // namespace vitrine::cli
