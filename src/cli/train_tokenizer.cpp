// vitrine tokenizer train: train a tokenizer and write it as a tokenizer.json.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "tokenizer/corpus.h"
#include "tokenizer/tokenizer_writer.h"

namespace vitrine::cli {
namespace {

struct TrainTokenizerOptions : Options {
  std::vector<std::string> paths, specials;
  std::string model = "bpe", ties = "greater", bos, out;
  std::int64_t vocab_size = 0;
  std::uint64_t min_frequency = 1;
};

struct Trained {
  std::string file;
  std::size_t vocab_size = 0, n_merges = 0, n_words = 0;
};

/// The given special tokens; by default those of the reference implementation that --ties follows.
std::vector<std::string> special_tokens(const TrainTokenizerOptions& o) {
  if (o.specials == std::vector<std::string>{""}) return {};
  if (!o.specials.empty() || o.model != "bpe" || o.ties != "greater") return o.specials;
  return {"<|endoftext|>"};
}

Trained train_bpe_file(const TrainTokenizerOptions& o, const std::vector<std::string>& files) {
  BpeTraining training;
  training.vocab_size = o.vocab_size;
  training.ties = o.ties == "greater" ? BpeTies::greater : BpeTies::smaller_id;
  training.min_frequency = o.min_frequency;
  training.specials = special_tokens(o);
  bpe_json(train_bpe({}, training), {}, o.bos);  // reports wrong options before the corpus is read
  ThreadPool pool(o.thread_count());
  WordCounts words;
  {
    ProgressBar bar("counting words");
    words = count_words(files, {o.tokenizer_options.pattern, training.specials, o.ties == "smaller-id"}, pool,
                        bar.reporter());
  }
  const std::size_t n_words = words.size();
  ProgressBar bar("merging pairs");
  const TrainedBpe bpe = train_bpe(std::move(words), training, bar.reporter());
  return {bpe_json(bpe, o.tokenizer_options.pattern, o.bos), bpe.pieces.size(), bpe.merges.size(), n_words};
}

Trained trained(const TrainTokenizerOptions& o) {
  const std::vector<std::string> specials = special_tokens(o);
  if (o.model == "bytes") return {bytes_json(specials, o.bos), 256 + specials.size()};
  const std::vector<std::string> files = corpus_files(o.paths);
  if (o.model == "bpe") return train_bpe_file(o, files);
  ProgressBar bar("reading");
  const std::vector<std::uint32_t> characters = characters_of(files, bar.reporter());
  return {characters_json(characters, specials, o.bos), characters.size() + specials.size()};
}

void check_usage(const TrainTokenizerOptions& o, const CLI::App& command) {
  if (o.paths.empty() && o.model != "bytes") throw CLI::RequiredError("FILE");
  if (!o.paths.empty() && o.model == "bytes") throw CLI::ValidationError("FILE", "--model bytes takes no text");
  if (o.model == "bpe" && o.vocab_size == 0) throw CLI::RequiredError("--vocab-size");
  if (o.model == "bpe") return;
  for (const char* name : {"--vocab-size", "--ties", "--pattern", "--min-frequency"}) {
    if (command.count(name) > 0) throw CLI::ValidationError(name, "requires --model bpe");
  }
}

void run_train_tokenizer(const TrainTokenizerOptions& o) {
  const Trained result = trained(o);
  stop_cleanly();
  write_file(o.out, result.file);
  const bool is_short = o.model == "bpe" && static_cast<std::int64_t>(result.vocab_size) < o.vocab_size;
  if (is_short) {
    note(fmt::format("the corpus has pairs for only {} of {} tokens", result.vocab_size, o.vocab_size));
  }
  if (o.json) {
    return print_json({{"out", o.out},
                       {"vocab_size", result.vocab_size},
                       {"merges", result.n_merges},
                       {"different_words", result.n_words}});
  }
  print(fmt::format("{}: {} tokens", o.out, grouped(static_cast<std::int64_t>(result.vocab_size))));
  if (o.model == "bpe") {
    print(fmt::format(", {} merges from {} distinct words", grouped(static_cast<std::int64_t>(result.n_merges)),
                      grouped(static_cast<std::int64_t>(result.n_words))));
  }
  print("\n");
}

}  // namespace

void add_tokenizer(CLI::App& program) {
  CLI::App& group = *program.add_subcommand("tokenizer", "Train tokenizers");
  group.require_subcommand(1);
  CLI::App& command = *group.add_subcommand("train", "Train a tokenizer on text and write it as a tokenizer.json");
  const auto o = std::make_shared<TrainTokenizerOptions>();
  command
      .add_option("FILE", o->paths,
                  "Text files, JSON lines with a \"text\" key (.jsonl, .ndjson), or folders of them and of .txt files")
      ->type_name("");
  command.add_option("--out", o->out, "The tokenizer.json to write")->required();
  add_number<std::int64_t>(command, "--vocab-size", o->vocab_size,
                           "Size of the vocabulary: special tokens, 256 bytes and merges", 1);
  command
      .add_option("--model", o->model,
                  "bpe: byte-level BPE; char: the characters of the text, sorted; bytes: 256 ids, without a text")
      ->check(CLI::IsMember({"bpe", "char", "bytes"}));
  command
      .add_option(
          "--ties", o->ties,
          "Which of equally frequent pairs to merge: greater: the greater byte strings; smaller-id: the smaller "
          "ids, with the text split into lines, as Hugging Face's trainer does")
      ->check(CLI::IsMember({"greater", "smaller-id"}));
  add_list(command, "--special", o->specials,
           "A special token; may be given several times; \"\": none (default: <|endoftext|> with --model bpe --ties "
           "greater, else none)");
  command.add_option("--bos", o->bos, "The special token to put before every text (default: none)");
  add_number<std::uint64_t>(command, "--min-frequency", o->min_frequency,
                            "Do not merge pairs that occur less often (default: 1)", 1);
  const auto run = [&command](const TrainTokenizerOptions& options) {
    check_usage(options, command);
    run_train_tokenizer(options);
  };
  finish_command(command, o, run,
                 "Text is split into words by GPT-2's pattern, or by --pattern.\n"
                 "Example: vitrine tokenizer train story.txt --vocab-size 300 --out tokenizer.json");
}

}  // namespace vitrine::cli
