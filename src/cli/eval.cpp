// vitrine eval: measure how well a model predicts the text of a file.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/math.h"
#include "cli/against.h"
#include "cli/commands.h"
#include "cli/eval_conversations.h"
#include "cli/eval_dictionaries.h"
#include "cli/eval_texts.h"
#include "cli/generate_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/scores.h"
#include "cli/table.h"
#include "cli/texts.h"
#include "data/pack.h"
#include "data/pairs.h"
#include "generate/evaluate.h"
#include "generate/generator.h"

namespace vitrine::cli {
namespace {

struct EvalOptions : Options, SplitOptions {
  GenerateOptions generation;  // of translations
  EvalConfig config;
  std::string target_file;
  ScoreSettings settings;
  ConversationKeys conversations;
  PreferenceKeys preference;
  std::string against, against_compute = "auto";
  bool layers = false;
  TaskKeys task;
  std::string out;  // what is known of each feature
};

constexpr std::int64_t kBatch = 32;  // sources that are translated at once

/// The loss of the lines of a target, given those of a source.
PairEvaluation evaluate_lines(const EvalOptions& o, const Session& session, std::span<const std::string_view> sources,
                              std::span<const std::string_view> targets) {
  const Tokenizer& own = *session.tokenizer;
  const auto marked = tokenizer_of_targets(o, o.generation.target_lang.value_or(""), session.tokenizer_path);
  const Tokenizer& of_target = marked ? *marked : own.target();
  std::optional<std::int32_t> end = end_token_of(of_target);
  if (!end && !session.checkpoint.stop_ids.empty()) end = session.checkpoint.stop_ids.front();
  if (!end) throw BadInput("--target", "neither the tokenizer nor the model has a token that ends a text");
  std::vector<TextPair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    pairs.push_back({own.encode(sources[i], SpecialTokens::apply), target_ids(of_target, *end, targets[i])});
  }
  ProgressBar bar("eval");
  return evaluate_pairs(session.context(o), pairs, start_id(session.defaults()), bar.reporter());
}

/// BLEU and chrF of what the search writes for the lines of a source.
Scores score_lines(const EvalOptions& o, const Session& session, std::span<const std::string_view> sources,
                   std::span<const std::string_view> targets) {
  std::vector<GenerateRequest> requests;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::vector<std::int32_t> ids = session.tokenizer->encode(sources[i], SpecialTokens::apply);
    requests.push_back(translation_of(session, o.generation, ids, fmt::format("line {}", i + 1)));
  }
  std::vector<std::string> texts(sources.size());
  {
    ProgressBar bar("translate");
    const ReportProgress report = bar.reporter();
    std::int64_t n_done = 0;
    generate_sorted(session.context(o), requests, kBatch, [&](std::size_t i, const GenerateResult& result) {
      texts[i] = one_line(result.text);
      report(++n_done, static_cast<std::int64_t>(texts.size()));
    });
  }
  std::vector<LinePair> lines;
  for (std::size_t i = 0; i < texts.size(); ++i) lines.push_back({texts[i], targets[i]});
  return scores_of(lines, o.settings);
}

/// An encoder–decoder on the lines of two files.
void run_eval_pairs(const EvalOptions& o, const Session& session, const std::string& source) {
  if (!session.has_encoder()) throw BadInput("--target", "the model has no encoder, so it reads one text only");
  const auto source_file = MappedFile::open_or_read(source), target_file = MappedFile::open_or_read(o.target_file);
  const auto [sources, targets] = line_pairs(*source_file, *target_file);
  const PairEvaluation result = evaluate_lines(o, session, sources, targets);
  std::optional<Scores> scores;
  if (o.generation.beam) scores = score_lines(o, session, sources, targets);
  const double perplexity = math::exp(result.loss());
  if (o.json) {
    Json object = {
        {"loss", result.loss()}, {"perplexity", perplexity}, {"tokens", result.tokens}, {"pairs", result.pairs}};
    if (scores) add_scores(*scores, object);
    return print_json(object);
  }
  print(
      fmt::format("loss             {:.6f} nats per target token\nperplexity       {:.4f}\n"
                  "over             {} tokens of {} pairs\n",
                  result.loss(), perplexity, grouped(result.tokens), grouped(result.pairs)));
  if (scores) print(to_string(*scores));
}

bool is_json_lines(const std::string& path) { return path.ends_with(".jsonl") || path.ends_with(".ndjson"); }

/// A file of pairs in place of FILE: a single positional is then the model.
void run_eval_preferences(const EvalOptions& o) {
  if (o.positionals > 1) throw UsageError("--pairs", "give --pairs or FILE, not both");
  const std::string model = o.positionals == 1 ? o.first : default_model();
  eval_preferences(o, o.conversations, o.preference, open_model(o, model, false), model, o.preference.path);
}

/// Both models over the text. MODEL2 must read it as the same tokens, if it has a tokenizer.
Compared compare_models(const EvalOptions& o, const Session& session, std::string_view text, SpecialTokens policy,
                        std::span<const std::int32_t> ids, const EvalConfig& config) {
  if (o.ranks != nullptr) throw Unsupported("--against", "expected one process, got --split");
  Options other_options = o;
  other_options.compute = o.against_compute;
  other_options.kv = "f32";
  other_options.adapters.clear();
  other_options.controls.clear();
  const Session other = open_for_texts(other_options, o.against, false);
  if (other.tokenizer != nullptr && !std::ranges::equal(text_ids(other, text, policy), ids)) {
    throw BadInput("--against", "expected a model with the same vocabulary, got one whose tokenizer gives other ids");
  }
  return evaluate_against(session.context(o), other.context(other_options), o.layers, ids, config);
}

void run_eval_task(const EvalOptions& o) {
  if (o.positionals == 0) throw MissingArgument("FILE");
  if (!o.preference.path.empty() || !o.target_file.empty() || o.ranks != nullptr || o.layers) {
    throw UsageError("--task", "it has no effect with --pairs, --target, --split and --layers");
  }
  const bool has_model = o.positionals == 2;
  eval_task(o, o.task, has_model ? o.first : "", has_model ? o.second : o.first, o.against);
}

/// Dictionaries are evaluated over one plain text.
void require_plain_text(const EvalOptions& o) {
  const bool has_other = !o.task.task.empty() || !o.preference.path.empty() || !o.target_file.empty() ||
                         !o.against.empty() || is_json_lines(o.positionals == 2 ? o.second : o.first);
  if (has_other) {
    throw UsageError("--sae",
                     "dictionaries are evaluated over one plain text, without --against, --task, --pairs and "
                     "--target");
  }
}

void run_eval(const EvalOptions& o) {
  if (!o.out.empty() && o.dictionaries.empty()) throw MissingArgument("--sae");
  if (!o.dictionaries.empty()) require_plain_text(o);
  if (!o.task.task.empty()) return run_eval_task(o);
  const bool has_plain_text = o.preference.path.empty() && o.target_file.empty();
  if (!o.against.empty() && !has_plain_text) {
    throw UsageError("--against", "models are compared over one plain text, without --pairs and --target");
  }
  const bool has_conversations = !o.preference.path.empty() || is_json_lines(o.positionals == 2 ? o.second : o.first);
  if (o.ranks != nullptr && has_conversations) {
    throw Unsupported("--split", "expected a plain text; conversations and preferences are evaluated by one process");
  }
  if (!o.preference.path.empty()) return run_eval_preferences(o);
  if (o.positionals == 0) throw MissingArgument("FILE");
  const bool has_model = o.positionals == 2;
  const Session session = open_model(o, has_model ? o.first : "", true);
  const std::string file = has_model ? o.second : o.first;
  if (!o.target_file.empty()) return run_eval_pairs(o, session, file);
  if (o.generation.beam) throw BadInput("--beam", "without --target there is nothing to translate");
  if (session.has_encoder()) {
    throw BadInput("--target", "the model is an encoder–decoder: give the file that it is to write (--target)");
  }
  if (is_json_lines(file)) {
    if (!o.against.empty()) throw BadInput(file, "expected a plain text with --against, got JSON Lines");
    return eval_conversations(o, o.conversations, session, has_model ? o.first : default_model(), file);
  }
  const SpecialTokens policy = o.no_special ? SpecialTokens::none : SpecialTokens::apply;
  const auto text_file = MappedFile::open_or_read(file);
  const std::vector<std::int32_t> ids = text_ids(session, text_file->text(), policy);
  EvalConfig config = o.config;
  if (!o.no_special) config.bos = session.bos();

  std::optional<ModelDifference> difference;
  std::vector<DictionaryQuality> qualities;
  Evaluation result;
  if (!o.dictionaries.empty()) {
    EvaluatedDictionaries evaluated = evaluate_dictionaries(session.context(o), ids, config);
    result = evaluated.evaluation;
    qualities = std::move(evaluated.qualities);
    if (!o.out.empty()) write_feature_statistics(o.out, qualities, *session.pool);
  } else if (!o.against.empty()) {
    const Compared compared = compare_models(o, session, text_file->text(), policy, ids, config);
    result = compared.evaluation;
    difference = compared.difference;
  } else {
    ProgressBar bar("eval");
    result = evaluate(session.context(o), ids, config, bar.reporter());
  }
  const double perplexity = math::exp(result.loss());
  const double bits_per_byte = result.nats / std::numbers::ln2 / static_cast<double>(result.bytes);
  if (o.json) {
    Json object = {
        {"loss", result.loss()},   {"perplexity", perplexity}, {"bits_per_byte", bits_per_byte},
        {"tokens", result.tokens}, {"bytes", result.bytes},    {"windows", result.windows},
        {"window", result.window}, {"stride", result.stride},  {"bos", config.bos ? Json(*config.bos) : Json(nullptr)}};
    if (difference) add_difference(*difference, object);
    if (!qualities.empty()) add_qualities(qualities, object);
    return print_json(object);
  }
  print(
      fmt::format("loss           {:.6f} nats per token\nperplexity     {:.4f}\nbits per byte  {:.6f}\n"
                  "over           {} tokens, {} bytes, {} windows of {} tokens, stride {}, {}\n",
                  result.loss(), perplexity, bits_per_byte, grouped(result.tokens), grouped(result.bytes),
                  grouped(result.windows), result.window, result.stride,
                  config.bos ? fmt::format("each beginning with BOS ({})", *config.bos) : "without BOS"));
  if (difference) print(to_string(*difference));
  if (!qualities.empty()) print(to_string(qualities));
}

}  // namespace

void add_eval(Command& program) {
  const auto [command, o] =
      new_command<EvalOptions>(program, "eval", "Compute cross-entropy, perplexity and bits per byte over a file");
  add_positionals(command, *o, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME", "FILE",
                  "A text file, or JSON Lines with conversations (.jsonl); a single positional is FILE");
  add_number<std::int64_t>(command, "--window", o->config.window,
                           "Tokens per window, including BOS (default: the model's context)", 2);
  add_number<std::int64_t>(command, "--stride", o->config.stride,
                           "Tokens of text between the starts of windows (default: windows do not overlap)", 1);
  command.add_option("--target", o->target_file,
                     "For an encoder–decoder: the file whose lines it is to write for those of FILE");
  add_optional(command, "--target-lang", o->generation.target_lang,
               "With --target: the language of its lines, as in fra_Latn (default: the tokenizer's)");
  add_number<int>(command, "--beam", o->generation.beam,
                  "With --target: also translate FILE with N beams, and report BLEU, chrF and chrF++", 1, 1024);
  add_score_settings(command, o->settings);
  add_conversation_keys(command, o->conversations);
  allow_hub(*o, o->conversations.chat_template, HubWanted::chat_template);
  allow_hub(*o, o->against);
  o->takes_one_model = [&pairs = o->preference.path] { return !pairs.empty(); };
  add_preference_keys(command, o->preference);
  Option* const against =
      command
          .add_option("--against", o->against,
                      "Another model, with f32 keys and values: compare the predictions with its own")
          ->type_name("MODEL2");
  add_choice(command, "--against-compute", o->against_compute, {"auto", "f32", "int8", "bf16"},
             "--compute for MODEL2: auto, f32, int8 or bf16")
      ->needs(against);
  command.add_flag("--layers", o->layers, "With --against: compare the stream after each layer, too")->needs(against);
  add_task_keys(command, o->task);
  add_modifiers(command, *o);
  add_measured_dictionaries(command, *o);
  command.add_option(
      "--out", o->out,
      "With --sae: write the density of each feature, and what the weights say about it, to a .safetensors "
      "file");
  add_split(command, *o);
  finish_command(
      command, o, run_eval,
      "Each window begins with BOS if the model has one (not with --no-special). Each token counts once, in the first\n"
      "window that contains it, unless nothing precedes it there.\n"
      "Of conversations, what `train` would learn counts; --template, --mask, --learn and --now are for them and for\n"
      "--pairs.\n"
      "--sae reports how well dictionaries of features reconstruct their sites, and the loss with the reconstructions\n"
      "and with zeros in place of them (docs/features.md).\n"
      "Example: vitrine eval stories260K.bin story.txt --tokenizer tok512.bin");
}

}  // namespace vitrine::cli
