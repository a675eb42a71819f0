// vitrine data: `pack` converts text to the token shards that training reads; `baselines` counts n-grams in them;
// `inspect` is in inspect_data.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/conversations.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "data/baselines.h"
#include "data/dataset.h"
#include "data/pack.h"
#include "data/pairs.h"
#include "tokenizer/train/corpus.h"

namespace vitrine::cli {
namespace {

struct PackCommand : Options {
  std::vector<std::string> paths;
  std::string out;
  std::optional<std::string> document_token;
  std::string target, target_tokenizer, target_lang;
  bool lines = false;
  PackOptions pack;
};

/// Packs the lines of two files as pairs.
void run_pack_pairs(const PackCommand& o, const Tokenizer& tokenizer) {
  if (o.paths.size() != 1) throw BadInput("--target", "expected one file of sources, got {}", o.paths.size());
  const auto own = o.target_tokenizer.empty()
                       ? tokenizer_of_targets(o, o.target_lang, o.tokenizer)
                       : load_tokenizer(o.target_tokenizer, {o.tokenizer_options.pattern, o.target_lang});
  ThreadPool pool(o.thread_count());
  PackedPairs packed;
  stop_cleanly();
  {
    ProgressBar bar("packing " + o.out);
    packed =
        pack_pairs(o.paths.front(), o.target, tokenizer, own ? *own : tokenizer.target(), o.out, pool, bar.reporter());
  }
  if (packed.empty > 0) note(fmt::format("{} pairs were dropped: a line is empty", grouped(packed.empty)));
  if (o.json) {
    return print_json({{"out", o.out},
                       {"pairs", packed.pairs},
                       {"empty", packed.empty},
                       {"source_tokens", packed.source_tokens},
                       {"target_tokens", packed.target_tokens}});
  }
  print(fmt::format("{}: {} pairs, {} source tokens, {} target tokens\n", o.out, grouped(packed.pairs),
                    grouped(packed.source_tokens), grouped(packed.target_tokens)));
}

std::optional<std::int32_t> document_token(const PackCommand& o, const Tokenizer& tokenizer) {
  if (!o.document_token) return document_token_of(tokenizer);
  if (o.document_token->empty()) return std::nullopt;
  const auto id = special_token(tokenizer, *o.document_token);
  if (!id) throw BadInput("--document-token", "the tokenizer has no special token \"{}\"", *o.document_token);
  return id;
}

void run_pack(const PackCommand& o) {
  if (o.tokenizer.empty()) throw MissingArgument("--tokenizer");
  const auto tokenizer = load_tokenizer(o.tokenizer, o.tokenizer_options);
  if (!o.target.empty()) return run_pack_pairs(o, *tokenizer);
  PackOptions options = o.pack;
  if (o.lines && !options.document_separator.empty()) {
    throw UsageError("--lines", "give --lines or --document-separator, not both");
  }
  if (o.lines) options.document_separator = "\n";
  options.document_token = document_token(o, *tokenizer);
  ThreadPool pool(o.thread_count());
  Packed packed;
  stop_cleanly();
  {
    ProgressBar bar("packing " + o.out);
    packed = pack_corpus(corpus_files(o.paths), *tokenizer, o.out, options, pool, bar.reporter());
  }
  if (packed.lost_bytes > 0) {
    note(fmt::format("{} bytes of the text were dropped: the vocabulary lacks their characters",
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
  const std::string begin = options.document_token ? "each beginning with " + tokenizer->piece(*options.document_token)
                                                   : std::string("without a first token");
  print(fmt::format("{}: {} tokens of {} bytes of text, {} {}, {}\n", o.out, grouped(packed.tokens),
                    grouped(packed.text_bytes), grouped(packed.documents),
                    packed.documents == 1 ? "document" : "documents", begin));
}

struct BaselineOptions : Options {
  std::string tokens, validation;
  double validation_fraction = 0.1;
  std::int64_t max_tokens = 20'000'000;
};

std::vector<std::int32_t> read_tokens(const TokenShards& shards, std::int64_t begin, std::int64_t n) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  shards.read(begin, ids);
  return ids;
}

void run_baselines(const BaselineOptions& o) {
  ThreadPool pool(o.thread_count());
  const std::int64_t vocab_size = TokenShards::open(o.tokens).info().vocab_size;
  const SplitCorpus corpus(o.tokens, o.validation, {1, 1, 0, o.validation_fraction}, vocab_size);
  const std::int64_t n_held_out = corpus.held_out()->validation_tokens();
  const auto counted = read_tokens(corpus.shards(), 0, std::min(corpus.training().train_tokens(), o.max_tokens));
  const auto held_out = read_tokens(corpus.held_out_shards(), corpus.held_out_shards().tokens() - n_held_out,
                                    std::min(n_held_out, o.max_tokens));
  constexpr int kOrders[] = {1, 2, 5};
  std::array<double, 3> loss{};
  {
    ProgressBar bar("counting");
    const NgramCounts counts(counted, vocab_size);
    for (std::size_t i = 0; i < loss.size(); ++i) {
      bar.update(static_cast<std::int64_t>(i) + 1, 4);
      loss[i] = counts.cross_entropy(held_out, kOrders[i], pool);
    }
  }
  if (o.json) {
    return print_json({{"unigram", loss[0]},
                       {"bigram", loss[1]},
                       {"fivegram", loss[2]},
                       {"counted_tokens", counted.size()},
                       {"held_out_tokens", held_out.size()}});
  }
  print(
      fmt::format("unigram  {:.4f} nats per token\nbigram   {:.4f}\n5-gram   {:.4f}\n"
                  "counted in {} tokens, measured on {} held-out tokens\n",
                  loss[0], loss[1], loss[2], grouped(static_cast<std::int64_t>(counted.size())),
                  grouped(static_cast<std::int64_t>(held_out.size()))));
}

void add_baselines(Command& group) {
  const auto [command, o] =
      new_command<BaselineOptions>(group, "baselines", "Cross-entropy of n-gram models of a corpus");
  command.add_option("TOKENS", o->tokens, "A folder written by vitrine data pack")->required()->type_name("");
  command.add_option("--validation", o->validation, "Measure on these shards, and count in all of TOKENS");
  add_number<double>(command, "--validation-fraction", o->validation_fraction,
                     "Or measure on this fraction of TOKENS, at its end, as training does (default: 0.1)", 1e-9, 0.9);
  add_number<std::int64_t>(command, "--most-tokens", o->max_tokens,
                           "Count in the first N tokens, and measure on at most N; each takes about 45 bytes of memory "
                           "(default: 20000000)",
                           2, std::int64_t{1} << 30);
  finish_command(
      command, o, run_baselines,
      "The models use interpolated modified Kneser-Ney smoothing; a trained model should reach a lower cross-entropy.\n"
      "Example: vitrine data baselines tokens/ --validation-fraction 0.1");
}

void add_pack(Command& group) {
  const auto [command, o] =
      new_command<PackCommand>(group, "pack", "Tokenize text into shards that training maps into memory");
  command
      .add_option("FILE", o->paths,
                  "Text files, JSON lines with a \"text\" key (.jsonl, .ndjson), or folders of them and of .txt files")
      ->required()
      ->type_name("");
  command.add_option("--out", o->out, "The folder to create")->required();
  command.add_option("--document-separator", o->pack.document_separator,
                     "The text that separates the documents of a text file, such as <|endoftext|> (default: a file is "
                     "one document)");
  command.add_flag("--lines", o->lines, "Every line is a document");
  command.add_option("--target", o->target, "Pack pairs: line n of this file belongs to line n of FILE");
  command.add_option("--target-tokenizer", o->target_tokenizer, "The tokenizer of --target (default: --tokenizer)");
  allow_hub(*o, o->target_tokenizer, HubWanted::tokenizer);
  command.add_option("--target-lang", o->target_lang,
                     "The language of --target, as in fra_Latn (default: the tokenizer's)");
  add_optional(
      command, "--document-token", o->document_token,
      "The special token that every document begins with; \"\" for none (default: BOS, else the end-of-text token)");
  add_number<std::int64_t>(command, "--shard-tokens", o->pack.shard_tokens,
                           "Begin a new shard at the first document after this many tokens (default: 134217728)", 1);
  finish_command(command, o, run_pack,
                 "--tokenizer is required: a tokenizer file, or a folder that contains one.\n"
                 "Special tokens in the text are treated as text.\n"
                 "Example: vitrine data pack story.txt --tokenizer tokenizer.json --out tokens/");
}

}  // namespace

void add_data(Command& program) {
  Command& group = *program.add_subcommand("data", "Prepare text for training");
  group.require_subcommand();
  add_pack(group);
  add_inspect(group);
  add_baselines(group);
}

}  // namespace vitrine::cli
