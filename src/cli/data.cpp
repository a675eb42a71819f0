// vitrine data pack: from text to token shards, which training reads.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "tokenizer/corpus.h"
#include "train/pack.h"

namespace vitrine::cli {
namespace {

struct PackCommand : Options {
  std::vector<std::string> paths;
  std::string out, document_token;
  bool has_document_token = false;
  PackOptions pack;
};

std::optional<std::int32_t> document_token(const PackCommand& o, const Tokenizer& tokenizer) {
  if (!o.has_document_token) return document_token_of(tokenizer);
  if (o.document_token.empty()) return std::nullopt;
  const auto id = special_token(tokenizer, o.document_token);
  if (!id) throw BadInput("--document-token", "the tokenizer has no special token \"{}\"", o.document_token);
  return id;
}

void run_pack(const PackCommand& o) {
  if (o.tokenizer.empty()) throw CLI::RequiredError("--tokenizer");
  const auto tokenizer = load_tokenizer(o.tokenizer, o.tokenizer_options);
  PackOptions options = o.pack;
  options.document_token = document_token(o, *tokenizer);
  ThreadPool pool(o.threads > 0 ? o.threads : default_thread_count());
  Packed packed;
  stop_cleanly();
  {
    ProgressBar bar("packing " + o.out);
    packed = pack_corpus(corpus_files(o.paths), *tokenizer, o.out, options, pool, bar.reporter());
  }
  if (packed.lost_bytes > 0) {
    note(fmt::format("the tokens spell {} bytes fewer than the text has: the vocabulary lacks some of its characters",
                     grouped(packed.lost_bytes)));
  }
  if (o.json) {
    return print_json({{"out", o.out},
                       {"tokens", packed.tokens},
                       {"documents", packed.documents},
                       {"bytes", packed.text_bytes},
                       {"lost_bytes", packed.lost_bytes},
                       {"shards", packed.shards},
                       {"vocab_size", tokenizer->vocab_size()},
                       {"document_token", options.document_token ? Json(*options.document_token) : Json(nullptr)}});
  }
  const std::string begin = options.document_token ? "each from " + tokenizer->piece(*options.document_token)
                                                   : std::string("without a token to begin them");
  print(fmt::format("{}: {} tokens of {} bytes of text, {} {}, {}\n", o.out, grouped(packed.tokens),
                    grouped(packed.text_bytes), grouped(packed.documents),
                    packed.documents == 1 ? "document" : "documents", begin));
}

}  // namespace

void add_data(CLI::App& program) {
  CLI::App& group = *program.add_subcommand("data", "Prepare text for training");
  group.require_subcommand(1);
  CLI::App& command = *group.add_subcommand("pack", "Tokenize text into shards that training maps into memory");
  const auto o = std::make_shared<PackCommand>();
  command
      .add_option("FILE", o->paths,
                  "Text, JSON lines with a \"text\" (.jsonl, .ndjson), or folders of .txt and such files")
      ->required()
      ->type_name("");
  command.add_option("--out", o->out, "The folder to make")->required();
  command.add_option("--document-separator", o->pack.document_separator,
                     "What stands between the documents of a text file, as <|endoftext|> (default: a file is one "
                     "document)");
  const auto take = [o](const std::string& text) {
    o->document_token = text;
    o->has_document_token = true;
  };
  command.add_option_function<std::string>(
      "--document-token", take,
      "The special token that every document begins with; \"\" for none (default: BOS, else an end of text)");
  add_number<std::int64_t>(command, "--shard-tokens", o->pack.shard_tokens,
                           "A shard with as many tokens takes no further document (default 134217728)", 1);
  add_common(command, *o);
  command.footer(
      "--tokenizer is needed: a tokenizer file, or a folder that holds one.\n"
      "Special tokens that are written in the text are taken as text.\n"
      "Example: vitrine data pack story.txt --tokenizer tokenizer.json --out tokens/");
  command.callback([o] { run_pack(*o); });
}

}  // namespace vitrine::cli
