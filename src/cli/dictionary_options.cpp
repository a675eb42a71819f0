// The options of dictionaries of features.
#include "cli/options.h"

namespace vitrine::cli {
namespace {

void add_paths(Command& command, Options& o) {
  add_list(command, "--sae", o.dictionaries,
           "Attach the sparse autoencoder or transcoder PATH, a folder of any format of docs/features.md, as "
           "[NAME=]PATH[@SITE]; may be given several times");
}

void add_skipped_tokens(Command& command, Options& o) {
  command
      .add_option("--sae-skip", o.skipped_tokens,
                  "Tokens at which dictionaries do nothing: special, none or ids as in 1,2 (default: none)")
      ->type_name("TOKENS");
}

}  // namespace

void add_dictionaries(Command& command, Options& o) {
  add_paths(command, o);
  add_choice(command, "--sae-use", o.dictionary_use, {"read", "error", "replace"},
             "What a dictionary does to its site: nothing, keep the error of its reconstruction, or replace the value "
             "(default: read, and error once one of its values is written)");
  add_skipped_tokens(command, o);
}

void add_read_dictionaries(Command& command, Options& o) {
  add_paths(command, o);
  add_skipped_tokens(command, o);
}

}  // namespace vitrine::cli
