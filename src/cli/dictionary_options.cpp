// The options of dictionaries of features.
#include "cli/eval_dictionaries.h"
#include "cli/options.h"

namespace vitrine::cli {

namespace {

void add_dictionary_list(Command& command, Options& o) {
  add_list(command, "--sae", o.dictionaries,
           "Attach the sparse autoencoder or transcoder PATH, a folder of any format of docs/features.md, as "
           "[NAME=]PATH[@SITE]; may be given several times");
}

}  // namespace

void add_dictionaries(Command& command, Options& o) {
  add_dictionary_list(command, o);
  add_choice(command, "--sae-use", o.dictionary_use, {"read", "error", "replace"},
             "What a dictionary does to its site: nothing, keep the error of its reconstruction, or replace the value "
             "(default: read, and error once one of its values is written)");
  command
      .add_option("--sae-skip", o.skipped_tokens,
                  "Tokens at which dictionaries do nothing: special, none or ids as in 1,2 (default: none)")
      ->type_name("TOKENS");
}

void add_measured_dictionaries(Command& command, Options& o) {
  add_dictionary_list(command, o);
  o.skipped_tokens = "special";
  command
      .add_option("--sae-skip", o.skipped_tokens,
                  "With --sae: tokens that do not count, and at which dictionaries do nothing: special, none or ids as "
                  "in 1,2 (default: special)")
      ->type_name("TOKENS");
}

}  // namespace vitrine::cli
