// The options of generation. Each has one row here, from which come the flags of the program, `/set` of a chat, the
// options of C, the keywords of Python, the fields of the server, and what --json prints about sampling.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "checkpoint/sampling_overrides.h"
#include "generate/watch.h"

namespace vitrine {

class DryBreakers;
class InfillChoice;

/// How a text is generated. What is absent is the checkpoint's choice (generation_config.json), else the default.
struct GenerateOptions {
  std::optional<std::int64_t> max_tokens{};       ///< Maximum number of tokens to add; else 128.
  std::optional<int> beam{};                      ///< Beams; 1: no search. With several, no token is sampled.
  std::optional<int> n_best{};                    ///< Texts of a search to return, at most `beam`; else 1.
  std::optional<double> length_penalty{};         ///< The score of a text is Σ log p / length^A; else 1.
  std::optional<std::string> early_stop{};        ///< "no", "yes" or "never" (generate/beam.h); else "no".
  std::optional<std::int64_t> min_tokens{};       ///< The text has at least so many tokens.
  std::optional<std::int64_t> no_repeat_ngram{};  ///< No so many tokens in a row occur twice.
  /// The beginning of what an encoder–decoder writes: a text, or ids without the start symbol; both: BadInput.
  std::optional<std::string> prefix{};
  std::optional<std::vector<std::int32_t>> prefix_ids{};
  /// What comes after the text: the model writes what is between. An empty one is one, too.
  std::optional<std::string> suffix{};
  std::optional<std::string> source_lang{};  ///< The language of the source text; absent: the tokenizer's.
  std::optional<std::string> target_lang{};  ///< The piece of the language's token, which comes first.
  std::optional<double> temperature{};       ///< These are members of SamplingConfig.
  std::optional<int> top_k{};
  std::optional<double> top_p{}, min_p{}, typical_p{}, epsilon_cutoff{}, eta_cutoff{}, repeat_penalty{},
      frequency_penalty{}, presence_penalty{};
  std::optional<int> repeat_last_n{};
  std::optional<double> dry_multiplier{}, dry_base{}, xtc_probability{}, xtc_threshold{}, top_n_sigma{},
      dynatemp_range{}, dynatemp_exponent{};
  std::optional<int> dry_allowed_length{}, dry_penalty_last_n{}, min_keep{};
  std::vector<std::string> dry_sequence_breakers{};  ///< Empty: a line feed, ":", a quote and "*".
  std::vector<std::string> banned_strings{};         ///< No answer contains one of these; at most 64.
  bool infill = false;                               ///< The sampler has llama-server's step "infill".
  bool greedy = false;                               ///< As a temperature of 0.
  std::vector<std::string> stop{};                   ///< The text ends before the first occurrence of any of these.
  std::optional<int> n_logprobs{};                   ///< Log-probabilities to report for each token; 0: none.
  std::optional<std::int64_t> n_indent{}, t_max_predict_ms{};  ///< These are members of TextLimits.
  /// Ids that end the text; absent: those of the checkpoint and of its tokenizer.
  std::optional<std::vector<std::int32_t>> stop_ids{};
  std::optional<std::int64_t> chunk{};  ///< The prompt is read in passes of so many tokens; absent: 256.
  /// State files (checkpoint/state_file.h): the text continues the one that `state` has read; `save_state` is written
  /// after the last id that was read. Only the program reads these.
  std::optional<std::string> state{}, save_state{};
  /// A constraint on the answer, at most one: a JSON Schema as JSON text, any JSON object, a regex that the whole
  /// answer matches, a list of texts of which it is one, a grammar in GBNF (docs/constraints.md).
  std::optional<std::string> schema{};
  bool json_object = false;
  std::optional<std::string> regex{};
  std::vector<std::string> choice{};
  std::optional<std::string> grammar{};
  std::optional<std::string> whitespace{};  ///< "none": none between the parts of JSON.
  bool no_must_finish = false;              ///< The answer may be cut off by max_tokens.
  bool fast_forward = false;                ///< Text that must follow is not drawn token by token.
  /// Of a chat: the most tokens of a reasoning, -1: any number; and how much of it the template asks for.
  std::optional<std::int64_t> thinking_budget{};
  std::optional<std::string> reasoning_effort{};
  std::optional<std::uint64_t> seed{};  ///< The same seed gives the same tokens, on any machine; absent: 0.
  /// Receives the text as it is generated, in whole characters, on the calling thread. An exception that it throws ends
  /// the call and propagates to the caller.
  std::function<void(const std::string& text)> on_text{};
  Watch watch{};
};

/// How a token is chosen, in these steps:
///   1. logit bias: adds the bias of each id that has one;
///   2. repeat penalty: once for each distinct id of the history, logit > 0 ? logit / penalty : logit * penalty
///      (Keskar et al., "CTRL", 2019; the formula of Hugging Face transformers);
///   3. frequency and presence penalties: for each distinct id of the generated tokens, which is among them n times,
///      logit - n * frequency_penalty - presence_penalty (OpenAI's formula);
///   4. DRY: logit - dry_multiplier · dry_base^(n - dry_allowed_length) for a token that would continue a repetition of
///      n ≥ dry_allowed_length tokens (generate/dry.h);
///   5. temperature: logit / temperature; with dynatemp_range it is low where few tokens are likely: from temperature −
///      range, at least 0, to temperature + range, by (entropy / ln n)^dynatemp_exponent of the n tokens' probabilities
///      at temperature 1 (llama.cpp's formula);
///   6. top-nσ: keeps the tokens whose logit before temperature is at least the largest one less n standard deviations;
///   7. top-k: of these, keeps the k most likely tokens;
///   8. typical: of these, keeps the smallest set of tokens, those whose −log p is nearest to its mean, the entropy,
///      first, whose probabilities add up to at least typical_p (Meister et al., "Locally Typical Sampling", 2022);
///   9. top-p: of these, keeps the smallest set of the most likely tokens whose probabilities add up to at least p;
///  10. min-p: of these, keeps the tokens at least min_p times as likely as the most likely one;
///  11. epsilon: of these, keeps the tokens with a probability of at least epsilon_cutoff;
///  12. eta: of these, keeps those of at least min(eta_cutoff, √eta_cutoff · exp(−entropy)) (Hewitt et al., "Truncation
///      Sampling as Language Model Desmoothing", 2022); 11 and 12 always keep the most likely token;
///  13. XTC: with the probability xtc_probability, removes all tokens with a probability of at least xtc_threshold but
///      the least likely of them;
///      8, 9, 10 and 13 leave at least min_keep tokens, if they got as many;
///  14. draws one of the remaining tokens, in proportion to its probability.
/// Candidates are ordered by (penalized logit descending, id ascending); every filter and every sum uses this order.
/// Probabilities are computed in double precision. A token with a logit of -inf is never chosen. At temperature 0, the
/// token with the largest penalized logit is chosen, and among equal logits the one with the lowest id, without steps 5
/// to 14 and without a random number.
struct SamplingConfig {
  double temperature = 0.8;      ///< 0 is greedy
  int top_k = 40;                ///< 0 is off
  double top_p = 0.95;           ///< 1 is off; 0 keeps the most likely token
  double min_p = 0;              ///< 0 is off
  double typical_p = 1;          ///< 1 is off
  double epsilon_cutoff = 0;     ///< 0 is off
  double eta_cutoff = 0;         ///< 0 is off
  double repeat_penalty = 1;     ///< 1 is off
  double frequency_penalty = 0;  ///< 0 is off
  double presence_penalty = 0;   ///< 0 is off
  int repeat_last_n = -1;        ///< The penalties see so many last tokens; -1: all
  double dry_multiplier = 0;     ///< 0 is off
  double dry_base = 1.75;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;  ///< DRY sees so many last tokens; -1: all; 0 is off
  double xtc_probability = 0;   ///< 0 is off
  double xtc_threshold = 0.1;   ///< above 0.5: off
  double top_n_sigma = 0;       ///< 0 and below are off
  double dynatemp_range = 0;    ///< 0 is off
  double dynatemp_exponent = 1;
  int min_keep = 0;                                           ///< At least so many tokens remain; 0 and 1: one.
  std::vector<std::pair<std::int32_t, double>> logit_bias{};  ///< ids and finite summands
  std::shared_ptr<const DryBreakers> dry_breakers{};          ///< Null: a repetition has no breakers.
  std::shared_ptr<const InfillChoice> infill{};               ///< The last filter (generate/infill_choice.h), if any.

  bool changes_logits() const {
    return dry_multiplier != 0 || repeat_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0 ||
           !logit_bias.empty();
  }
  /// Throws BadInput for a value outside the range of its row, naming the option and the range.
  void validate() const;
};

/// The finite numbers from `lowest`, or above it, to `highest`.
struct OptionRange {
  double lowest = -std::numeric_limits<double>::infinity(), highest = std::numeric_limits<double>::infinity();
  bool is_above = false;

  bool contains(double value) const;  ///< Not NaN.
  /// "a number in (0, 1]", or for whole numbers "a whole number from 0 to 7".
  std::string text(bool is_whole) const;
};

/// Where an option is offered: the flags of generate, translate and chat, the command /set of a chat, the other
/// interfaces.
enum OfferedIn : unsigned {
  kInGenerate = 1,
  kInTranslate = 2,
  kInChat = 4,
  kInSet = 8,
  kInC = 16,
  kInPython = 32,
  kInServer = 64
};
constexpr unsigned kInSearch = kInGenerate | kInTranslate | kInC | kInPython;
constexpr unsigned kInAnswer = kInGenerate | kInChat | kInC | kInPython;
constexpr unsigned kInSampling = kInGenerate | kInChat | kInSet | kInC | kInPython | kInServer;

struct OptionRow {
  const char* name;  ///< With _, for which flags and /set have -.
  std::variant<bool GenerateOptions::*, std::optional<int> GenerateOptions::*,
               std::optional<std::int64_t> GenerateOptions::*, std::optional<std::uint64_t> GenerateOptions::*,
               std::optional<double> GenerateOptions::*, std::optional<std::string> GenerateOptions::*,
               std::vector<std::string> GenerateOptions::*, std::optional<std::vector<std::int32_t>> GenerateOptions::*>
      place;
  unsigned in = 0;         ///< OfferedIn
  const char* about = "";  ///< The help of the program, which adds the default of `value`.
  OptionRange range{};
  /// Where the sampler reads it, if it is an option of the sampler; whoever sets it wants to sample, if `samples`.
  std::variant<std::monostate, int SamplingConfig::*, double SamplingConfig::*> value{};
  bool samples = false;
  /// Where a checkpoint has its choice.
  std::variant<std::monostate, std::optional<int> SamplingOverrides::*, std::optional<double> SamplingOverrides::*>
      stored{};
  bool is_rare = false;                      ///< Values are shown only if they differ from the default.
  bool is_file = false;                      ///< The program reads the value from a file.
  const char* in_chat = "";                  ///< The help of chat, if it differs.
  std::vector<std::string> names{};          ///< The texts that are allowed, if not all.
  const char* field = "";                    ///< The field of the server, if its name differs,
  std::optional<OptionRange> field_range{};  ///< or its range.
  std::vector<const char*> other_fields{};   ///< Its names in other interfaces. The last one that is given counts.

  bool is_in(unsigned places) const { return (in & places) != 0; }
  bool is_of_sampler() const { return value.index() != 0; }
  std::string flag() const;      ///< "--top-k"
  std::string help() const;      ///< `about` with the default.
  std::string expected() const;  ///< What a value must be: "a number in (0, 1]", "no, yes or never".
  std::string_view field_name() const { return *field != '\0' ? field : name; }
  const OptionRange& field_limits() const { return field_range ? *field_range : range; }
};

/// The rows, in the order of the program's help.
const std::vector<OptionRow>& option_rows();

/// The row of this name, which exists.
inline const OptionRow& option_row(std::string_view name) {
  const auto has_name = [&](const OptionRow& row) { return row.name == name; };
  return *std::find_if(option_rows().begin(), option_rows().end(), has_name);
}

/// Calls visit(name, value) for each option of the sampler that the program offers, in the order of the rows.
template <class Visit>
void for_each_sampling_value(const SamplingConfig& config, Visit visit) {
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInGenerate)) continue;
    const auto show = [&](auto place) {
      if (!row.is_rare || config.*place != SamplingConfig().*place) visit(row.name, config.*place);
    };
    if (const auto* const real = std::get_if<double SamplingConfig::*>(&row.value)) show(*real);
    if (const auto* const whole = std::get_if<int SamplingConfig::*>(&row.value)) show(*whole);
  }
}
/// "temperature 0.8, top-k 40, …"
std::string sampling_text(const SamplingConfig& config);

}  // namespace vitrine
