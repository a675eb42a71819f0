// vitrine tokenizer train: train a tokenizer and write it as a tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "base/error.h"
#include "base/file_writer.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "tokenizer/read/tokenizer_writer.h"
#include "tokenizer/train/corpus.h"

namespace vitrine::cli {
namespace {

struct TrainTokenizerOptions : Options {
  std::vector<std::string> paths, specials;
  std::string model = "bpe", ties = "greater", order = "code-point", bos, eos, unk, out;
  std::int64_t vocab_size = 0;
  std::uint64_t min_frequency = 1;
};

struct Trained {
  std::string file;
  std::size_t vocab_size = 0, n_merges = 0, n_words = 0;
};

/// The special tokens in the order of the command line. --unk and --eos may name tokens that --special also names.
std::vector<std::string> given_tokens(const TrainTokenizerOptions& o, const Command& command) {
  std::vector<std::string> tokens;
  std::size_t n_special = 0;
  const auto add_role = [&](const std::string& text) {
    const bool is_known = std::find(o.specials.begin(), o.specials.end(), text) != o.specials.end() ||
                          std::find(tokens.begin(), tokens.end(), text) != tokens.end();
    if (!text.empty() && !is_known) tokens.push_back(text);
  };
  const bool has_none = o.specials == std::vector<std::string>{""};
  for (const std::string& name : command.given()) {
    if (name == "--special" && !has_none) tokens.push_back(o.specials.at(n_special++));
    if (name == "--unk") add_role(o.unk);
    if (name == "--eos") add_role(o.eos);
  }
  add_role(o.unk);
  return tokens;
}

/// By default, the special tokens are those of the reference implementation that --ties follows.
std::vector<std::string> special_tokens(const TrainTokenizerOptions& o, const Command& command) {
  std::vector<std::string> tokens = given_tokens(o, command);
  if (!tokens.empty() || !o.specials.empty() || o.model != "bpe" || o.ties != "greater") return tokens;
  return {"<|endoftext|>"};
}

/// Counts the words of the files, with the progress.
WordCounts counted(const TrainTokenizerOptions& o, const std::vector<std::string>& files,
                   const WordCounting& counting) {
  ThreadPool pool(o.thread_count());
  ProgressBar bar("counting words");
  return count_words(files, counting, pool, bar.reporter());
}

Trained train_bpe_file(const TrainTokenizerOptions& o, const std::vector<std::string>& specials,
                       const TokenRoles& roles, const std::vector<std::string>& files) {
  BpeTraining training;
  training.vocab_size = o.vocab_size;
  training.ties = o.ties == "greater" ? BpeTies::greater : BpeTies::smaller_id;
  training.min_frequency = o.min_frequency;
  training.specials = specials;
  bpe_json(train_bpe({}, training), {}, roles);  // reports wrong options before the corpus is read
  WordCounts words = counted(o, files, {o.tokenizer_options.pattern, specials, o.ties == "smaller-id"});
  const std::size_t n_words = words.size();
  ProgressBar bar("merging pairs");
  const TrainedBpe bpe = train_bpe(std::move(words), training, bar.reporter());
  return {bpe_json(bpe, o.tokenizer_options.pattern, roles), bpe.pieces.size(), bpe.merges.size(), n_words};
}

Trained train_wordpiece(const TrainTokenizerOptions& o, const std::vector<std::string>& specials,
                        const TokenRoles& roles, const std::vector<std::string>& files) {
  BpeTraining training;
  training.vocab_size = o.vocab_size;
  training.ties = BpeTies::smaller_id;
  training.min_frequency = o.min_frequency;
  training.specials = specials;
  training.symbols = BpeSymbols::characters;
  WordCounts words = counted(o, files, {"", specials, true, wordpiece_normalizer(), wordpiece_pre_tokenizer()});
  const std::size_t n_words = words.size();
  ProgressBar bar("merging pairs");
  const TrainedBpe bpe = train_bpe(std::move(words), training, bar.reporter());
  return {wordpiece_json(bpe, roles), bpe.pieces.size(), bpe.merges.size(), n_words};
}

/// The number of pieces that --vocab-size leaves for a vocabulary without merges.
std::size_t max_pieces(const TrainTokenizerOptions& o, const std::vector<std::string>& specials) {
  if (o.vocab_size == 0) return std::numeric_limits<std::size_t>::max();
  const auto n = static_cast<std::size_t>(o.vocab_size);
  if (n > specials.size()) return n - specials.size();
  throw BadInput("--vocab-size", "expected more than the {} special tokens, got {}", specials.size(), n);
}

Trained train_words(const TrainTokenizerOptions& o, const std::vector<std::string>& specials, const TokenRoles& roles,
                    const std::vector<std::string>& files) {
  const std::size_t most = max_pieces(o, specials);
  const WordCounts words = counted(o, files, {"", specials, false, {}, words_pre_tokenizer()});
  const std::vector<std::string> kept = frequent_words(words, most, o.min_frequency);
  return {words_json(kept, specials, roles), kept.size() + specials.size(), 0, words.size()};
}

Trained trained(const TrainTokenizerOptions& o, const Command& command) {
  const std::vector<std::string> specials = special_tokens(o, command);
  const TokenRoles roles = {o.bos, o.eos, o.unk};
  if (o.model == "bytes") return {bytes_json(specials, roles), 256 + specials.size()};
  const std::vector<std::string> files = corpus_files(o.paths);
  if (o.model == "bpe") return train_bpe_file(o, specials, roles, files);
  if (o.model == "wordpiece") return train_wordpiece(o, specials, roles, files);
  if (o.model == "word") return train_words(o, specials, roles, files);
  const bool by_frequency = o.order == "frequency";
  const CharacterOrder order = by_frequency ? CharacterOrder::frequency : CharacterOrder::code_point;
  ProgressBar bar("reading");
  const std::vector<std::uint32_t> characters =
      frequent_characters(files, max_pieces(o, specials), order, bar.reporter());
  return {characters_json(characters, specials, roles, by_frequency), characters.size() + specials.size()};
}

void check_usage(const TrainTokenizerOptions& o, const Command& command) {
  if (o.paths.empty() && o.model != "bytes") throw MissingArgument("FILE");
  if (!o.paths.empty() && o.model == "bytes") throw UsageError("FILE", "--model bytes takes no text");
  const bool merges = o.model == "bpe" || o.model == "wordpiece";
  if (merges && o.vocab_size == 0) throw MissingArgument("--vocab-size");
  const std::vector<std::string> given = command.given();
  const auto requires_model = [&](const char* name, std::initializer_list<const char*> models, const char* text) {
    const bool fits = std::find(models.begin(), models.end(), o.model) != models.end();
    if (std::find(given.begin(), given.end(), name) != given.end() && !fits) throw UsageError(name, text);
  };
  requires_model("--vocab-size", {"bpe", "wordpiece", "word", "char"}, "--model bytes has no choice of a size");
  requires_model("--min-frequency", {"bpe", "wordpiece", "word"}, "requires --model bpe, wordpiece or word");
  requires_model("--ties", {"bpe"}, "requires --model bpe");
  requires_model("--pattern", {"bpe"}, "requires --model bpe");
  requires_model("--order", {"char"}, "requires --model char");
}

void run_train_tokenizer(const TrainTokenizerOptions& o, const Command& command) {
  const Trained result = trained(o, command);
  stop_cleanly();
  write_file(o.out, result.file);
  const bool merges = o.model == "bpe" || o.model == "wordpiece";
  const bool is_short = merges && static_cast<std::int64_t>(result.vocab_size) < o.vocab_size;
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
  if (merges) {
    print(fmt::format(", {} merges from {} distinct words", grouped(static_cast<std::int64_t>(result.n_merges)),
                      grouped(static_cast<std::int64_t>(result.n_words))));
  }
  print("\n");
}

}  // namespace

void add_tokenizer(Command& program) {
  Command& group = *program.add_subcommand("tokenizer", "Train tokenizers");
  group.require_subcommand();
  const auto [command, o] =
      new_command<TrainTokenizerOptions>(group, "train", "Train a tokenizer on text and write it as a tokenizer.json");
  command
      .add_option("FILE", o->paths,
                  "Text files, JSON lines with a \"text\" key (.jsonl, .ndjson), or folders of them and of .txt files")
      ->type_name("");
  command.add_option("--out", o->out, "The tokenizer.json to write")->required();
  add_number<std::int64_t>(command, "--vocab-size", o->vocab_size,
                           "Size of the vocabulary: special tokens, symbols (256 bytes, or the characters) and merges; "
                           "the most with --model word and char (default for these: no limit)",
                           1);
  add_choice(command, "--model", o->model, {"bpe", "wordpiece", "word", "char", "bytes"},
             "bpe: byte-level BPE; wordpiece: BERT's pieces, with ##; word: the most frequent words between white "
             "space; char: the characters of the text; bytes: 256 ids, without a text");
  add_choice(command, "--ties", o->ties, {"greater", "smaller-id"},
             "Which of equally frequent pairs to merge: greater: the greater byte strings; smaller-id: the "
             "smaller ids, with the text split into lines, as Hugging Face's trainer does");
  add_choice(command, "--order", o->order, {"code-point", "frequency"},
             "The ids of characters: code-point: ascending, before the special tokens; frequency: the most "
             "frequent first, after the special tokens (default: code-point)");
  add_list(command, "--special", o->specials,
           "A special token; may be given several times; \"\": none (default: <|endoftext|> with --model bpe --ties "
           "greater, else none)");
  command.add_option("--bos", o->bos, "The special token to put before every text (default: none)");
  command.add_option("--eos", o->eos, "A special token to put after every text (default: none)");
  command.add_option("--unk", o->unk,
                     "A special token for what is not in the vocabulary (default: <unk> with --model word, [UNK] with "
                     "wordpiece, none with char)");
  add_number<std::uint64_t>(command, "--min-frequency", o->min_frequency,
                            "Do not merge pairs, or keep words, that occur less often (default: 1)", 1);
  const auto run = [&app = command](const TrainTokenizerOptions& given) {
    check_usage(given, app);
    TrainTokenizerOptions options = given;
    if (options.unk.empty() && options.model == "word") options.unk = "<unk>";
    if (options.unk.empty() && options.model == "wordpiece") options.unk = "[UNK]";
    run_train_tokenizer(options, app);
  };
  finish_command(command, o, run,
                 "Text is split into words by GPT-2's pattern, or by --pattern.\n"
                 "Example: vitrine tokenizer train story.txt --vocab-size 300 --out tokenizer.json");
}

}  // namespace vitrine::cli
