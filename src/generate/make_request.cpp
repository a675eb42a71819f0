#include "generate/make_request.h"

#include <algorithm>

#include "base/error.h"
#include "generate/dry.h"
#include "generate/infill_choice.h"

namespace vitrine {
namespace {

EarlyStop early_stop_of(const std::string& name) {
  if (name == "no") return EarlyStop::no;
  if (name == "yes") return EarlyStop::yes;
  if (name == "never") return EarlyStop::never;
  throw BadInput("early_stop", "expected no, yes or never, got {}", name);
}

/// Whether the caller sets an option of a row that samples.
bool wants_to_sample(const GenerateOptions& caller) {
  return std::any_of(option_rows().begin(), option_rows().end(), [&](const OptionRow& row) {
    const auto is_set = [&]<class T>(std::optional<T> GenerateOptions::*place) { return (caller.*place).has_value(); };
    return row.samples && std::visit(
                              [&](auto place) {
                                if constexpr (requires { is_set(place); }) return is_set(place);
                                return false;
                              },
                              row.place);
  });
}

/// The id of the language's token; none without a language. Throws BadInput if the vocabulary has no such token.
std::optional<std::int32_t> language_id(const GenerateOptions& caller, const Tokenizer* tokenizer) {
  if (!caller.target_lang || caller.target_lang->empty()) return std::nullopt;
  if (tokenizer == nullptr) throw BadInput("--target-lang", "the piece of a token needs a tokenizer");
  return language_token(tokenizer->target(), *caller.target_lang, "--target-lang");
}

void set_source(const RequestDefaults& model, std::vector<std::int32_t> ids, const GenerateOptions& caller,
                GenerateRequest& request) {
  if (const std::string language = caller.source_lang.value_or(""); !language.empty()) {
    if (model.tokenizer == nullptr) throw BadInput("--source-lang", "the token of a language needs a tokenizer");
    set_source_language(*model.tokenizer, language, ids);
  }
  request.source = std::move(ids);
}

void set_texts(const RequestDefaults& model, std::vector<std::int32_t> ids, const GenerateOptions& caller,
               GenerateRequest& request) {
  const std::string text = caller.prefix.value_or("");
  const std::vector<std::int32_t> given = caller.prefix_ids.value_or(std::vector<std::int32_t>());
  const bool has_prefix = !text.empty() || !given.empty();
  if (!model.has_encoder) {
    if (has_prefix || !caller.target_lang.value_or("").empty() || !caller.source_lang.value_or("").empty()) {
      throw BadInput("--prefix", "the model has no encoder: the text is what it continues");
    }
    request.prompt = std::move(ids);
    return;
  }
  if (!text.empty() && !given.empty()) throw BadInput("--prefix", "expected --prefix or --prefix-ids, got both");
  set_source(model, std::move(ids), caller, request);
  request.prompt = {start_id(model)};
  const std::optional<std::int32_t> language = language_id(caller, model.tokenizer);
  request.rules.forced_first = language ? language : model.search.forced_first;
  if (!has_prefix) return;  // a language alone is the first token of the search
  if (language) request.prompt.push_back(*language);
  std::vector<std::int32_t> first = given;
  if (!text.empty()) {
    if (model.tokenizer == nullptr) throw BadInput("--prefix", "expected --prefix-ids, because there is no tokenizer");
    first = model.tokenizer->target().encode(text, SpecialTokens::none);
  }
  request.prompt.insert(request.prompt.end(), first.begin(), first.end());
}

/// Throws Unsupported if the checkpoint wants what cannot be done, and the caller does not replace it.
void check_stored(const RequestDefaults& model, const GenerateOptions& caller, bool samples) {
  const SearchDefaults& stored = model.search;
  if (!stored.refused.empty()) {
    throw Unsupported("generation_config.json",
                      "key {} is not supported, and changes the text: remove it (--allow-config-key {} ignores it)",
                      stored.refused, stored.refused);
  }
  const bool samples_beams = stored.samples && stored.n_beams.value_or(1) > 1;
  if (samples_beams && !samples && !caller.beam && !caller.greedy) {
    throw Unsupported("generation_config.json",
                      "do_sample with num_beams {}: beams do not sample (--beam {} searches without, --temperature 1 "
                      "samples without beams)",
                      *stored.n_beams, *stored.n_beams);
  }
}

/// Sets the beams, the rules and the number of tokens of a request whose prompt is set.
void set_search(const RequestDefaults& model, const GenerateOptions& caller, bool samples, GenerateRequest& request) {
  const SearchDefaults& stored = model.search;
  check_stored(model, caller, samples);
  const auto prompt_size = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t stored_beams = samples ? 1 : std::clamp<std::int64_t>(stored.n_beams.value_or(1), 1, 1 << 20);
  request.chunk = caller.chunk;
  request.beam.n_beams = caller.beam.value_or(static_cast<int>(stored_beams));
  request.beam.n_best = caller.n_best.value_or(1);
  request.beam.length_penalty = caller.length_penalty.value_or(stored.length_penalty.value_or(1));
  request.beam.early_stop = early_stop_of(caller.early_stop.value_or(stored.early_stop.value_or("no")));

  // The checkpoint's lengths include the prompt, unless they are those of new tokens.
  const auto without_prompt = [&](std::int64_t length) { return std::max<std::int64_t>(0, length - prompt_size); };
  request.max_tokens = model.max_tokens;
  if (caller.max_tokens) {
    request.max_tokens = *caller.max_tokens;
  } else if (stored.max_new_tokens) {
    request.max_tokens = *stored.max_new_tokens;
  } else if (stored.max_length) {
    request.max_tokens = without_prompt(*stored.max_length);
  }
  OutputRules& rules = request.rules;
  const std::int64_t stored_least = stored.min_new_tokens.value_or(without_prompt(stored.min_length.value_or(0)));
  rules.min_tokens = caller.min_tokens.value_or(stored_least);
  rules.no_repeat_ngram = caller.no_repeat_ngram.value_or(stored.no_repeat_ngram.value_or(0));
  rules.bad_words = stored.bad_words;
  rules.suppressed = stored.suppressed;
  rules.suppressed_first = stored.suppressed_first;
  rules.sequence_bias = stored.sequence_bias;
  rules.source_penalty = stored.source_penalty.value_or(1);
  rules.source_no_repeat_ngram = stored.source_no_repeat_ngram.value_or(0);
  rules.stop_growth = stored.stop_growth;
  rules.forced_last = stored.forced_last;
}

AnswerConstraint answer_of(const RequestDefaults& model, const GenerateOptions& caller) {
  const std::optional<constrain::Source> source = constraint_of(caller);
  if (!source) return {};
  if (model.constraints == nullptr) throw BadInput("constraint", "a constraint on the text needs a tokenizer");
  AnswerConstraint answer{model.constraints->get(*source), !caller.no_must_finish};
  if (caller.fast_forward) answer.fast_forward = model.constraints->tokens();
  return answer;
}

}  // namespace

std::optional<constrain::Source> constraint_of(const GenerateOptions& options) {
  using Kind = constrain::Source::Kind;
  const std::pair<bool, const char*> given[] = {{options.schema.has_value(), "schema"},
                                                {options.json_object, "json_object"},
                                                {options.regex.has_value(), "regex"},
                                                {!options.choice.empty(), "choice"},
                                                {options.grammar.has_value(), "grammar"}};
  const char* first = nullptr;
  for (const auto& [is_given, name] : given) {
    if (is_given && first != nullptr) throw BadInput(name, "expected one constraint, got {} as well", first);
    if (is_given) first = name;
  }
  if (first == nullptr) return std::nullopt;
  const bool has_white_space = !options.whitespace && !options.fast_forward;
  if (options.schema) return constrain::Source{Kind::schema, *options.schema, {}, has_white_space};
  if (options.json_object) return constrain::Source{Kind::json_object, "", {}, has_white_space};
  if (options.regex) return constrain::Source{Kind::regex, *options.regex};
  if (options.grammar) return constrain::Source{Kind::grammar, *options.grammar};
  return constrain::Source{Kind::choice, "", options.choice};
}

RequestDefaults defaults_of(const Checkpoint& checkpoint, const Tokenizer* tokenizer) {
  RequestDefaults model;
  model.sampling = checkpoint.generation;
  model.search = checkpoint.search;
  model.stop_ids = checkpoint.stop_ids;
  model.bos = checkpoint.bos_id;
  model.has_encoder = checkpoint.model->config().encoder.has_value();
  model.tokenizer = tokenizer;
  if (tokenizer != nullptr) model.constraints = std::make_shared<constrain::ConstraintCache>(*tokenizer);
  if (tokenizer != nullptr) {
    const std::vector<std::int32_t>& own = tokenizer->target().stop_ids();
    model.stop_ids.insert(model.stop_ids.end(), own.begin(), own.end());
    if (tokenizer->bos()) model.bos = tokenizer->bos();
  }
  model.start = checkpoint.start_id ? checkpoint.start_id : model.bos;
  return model;
}

std::vector<std::int32_t> stop_ids_of(const RequestDefaults& model, bool fills) {
  std::vector<std::int32_t> ids = model.stop_ids;
  if (!fills || model.tokenizer == nullptr) return ids;
  const std::vector<std::int32_t> own = model.tokenizer->fim_tokens().all();
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

std::vector<std::int32_t> or_bos(std::vector<std::int32_t> ids, const RequestDefaults& model) {
  if (ids.empty() && model.bos) ids.push_back(*model.bos);
  return ids;
}

std::vector<std::int32_t> ids_or_bos(std::vector<std::int32_t> ids, const RequestDefaults& model, const char* where) {
  ids = or_bos(std::move(ids), model);
  if (ids.empty()) throw BadInput(where, "the text is empty and the model has no BOS to start from");
  return ids;
}

std::int32_t start_id(const RequestDefaults& model) {
  if (!model.start) {
    throw BadInput("config.json", "decoder_start_token_id is missing: give the ids that the decoder reads");
  }
  return *model.start;
}

std::vector<std::int32_t> decoder_ids(const RequestDefaults& model, const std::string& text, SpecialTokens policy) {
  std::vector<std::int32_t> ids = model.tokenizer->target().encode(text, policy);
  ids.insert(ids.begin(), start_id(model));
  return ids;
}

SamplingChoice choose_sampling(const GenerateOptions& caller, const RequestDefaults& model) {
  SamplingChoice choice{model.otherwise, {}};
  const auto choose = [&]<class T>(const OptionRow& row, T SamplingConfig::*value) {
    const auto* const place = std::get_if<std::optional<T> GenerateOptions::*>(&row.place);
    const auto* const stored = std::get_if<std::optional<T> SamplingOverrides::*>(&row.stored);
    if (stored != nullptr && model.sampling.**stored) {
      choice.config.*value = *(model.sampling.**stored);
      if (!(caller.**place)) choice.from_checkpoint.emplace_back(row.name);
    }
    if (caller.**place) choice.config.*value = *(caller.**place);
  };
  for (const OptionRow& row : option_rows()) {
    if (const auto* const real = std::get_if<double SamplingConfig::*>(&row.value)) choose(row, *real);
    if (const auto* const whole = std::get_if<int SamplingConfig::*>(&row.value)) choose(row, *whole);
  }
  const bool greedy_by_default = model.sampling.greedy && !wants_to_sample(caller);
  if (caller.greedy || greedy_by_default) choice.config.temperature = 0;
  if (greedy_by_default && !caller.greedy) choice.from_checkpoint = {"greedy"};
  return choice;
}

SamplerTexts sampler_texts_of(const RequestDefaults& model, const GenerateOptions& caller) {
  SamplerTexts texts;
  const bool has_breakers = choose_sampling(caller, model).config.dry_multiplier != 0;
  if (!has_breakers && caller.banned_strings.empty() && !caller.infill) return texts;
  if (model.constraints == nullptr) {
    if (caller.infill) throw BadInput("infill", "it needs a tokenizer");
    if (caller.banned_strings.empty() && caller.dry_sequence_breakers.empty()) return texts;
    throw BadInput(caller.banned_strings.empty() ? "dry_sequence_breakers" : "banned_strings", "they need a tokenizer");
  }
  if (!caller.banned_strings.empty()) {
    texts.banned = std::make_shared<const BannedStrings>(caller.banned_strings, model.constraints->vocabulary());
  }
  const std::vector<std::int32_t> stop_ids = caller.stop_ids.value_or(stop_ids_of(model, true));
  if (caller.infill && !stop_ids.empty()) {
    texts.infill = std::make_shared<const InfillChoice>(model.constraints->vocabulary(), stop_ids);
  }
  if (!has_breakers) return texts;
  const std::vector<std::string> usual = {"\n", ":", "\"", "*"};
  texts.dry_breakers = std::make_shared<const DryBreakers>(
      model.constraints->tokenizer(), caller.dry_sequence_breakers.empty() ? usual : caller.dry_sequence_breakers);
  return texts;
}

GenerateRequest make_request(const RequestDefaults& model, std::vector<std::int32_t> ids, const GenerateOptions& caller,
                             std::vector<std::string>* from_checkpoint, const SamplerTexts* texts) {
  GenerateRequest request;
  request.rules.forced_first = model.search.forced_first;
  set_texts(model, std::move(ids), caller, request);
  const bool samples = wants_to_sample(caller);
  set_search(model, caller, samples, request);
  SamplingChoice sampling = choose_sampling(caller, model);
  request.sampling = std::move(sampling.config);
  if (from_checkpoint != nullptr) *from_checkpoint = std::move(sampling.from_checkpoint);
  if (request.beam.n_beams > 1 && !samples) request.sampling.temperature = 0;
  request.seed = caller.seed.value_or(0);
  request.stop_ids = caller.stop_ids ? *caller.stop_ids : stop_ids_of(model, caller.suffix.has_value());
  request.stop_strings = caller.stop;
  request.stop_strings.insert(request.stop_strings.end(), model.search.stop_strings.begin(),
                              model.search.stop_strings.end());
  request.limits = {caller.n_indent.value_or(0), caller.t_max_predict_ms.value_or(0)};
  request.n_logprobs = caller.n_logprobs.value_or(0);
  request.sampling.validate();
  request.answer = answer_of(model, caller);
  const SamplerTexts of_sampler = texts != nullptr ? *texts : sampler_texts_of(model, caller);
  request.sampling.dry_breakers = of_sampler.dry_breakers;
  request.sampling.infill = of_sampler.infill;
  request.banned = of_sampler.banned;
  request.wants_score = model.has_encoder || request.beam.n_beams > 1;
  return request;
}

}  // namespace vitrine
