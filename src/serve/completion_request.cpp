#include "serve/completion_request.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "generate/read_option.h"
#include "serve/constraint_fields.h"
#include "serve/fim_fields.h"
#include "serve/foreign_fields.h"
#include "serve/modifier_fields.h"
#include "serve/prediction_field.h"
#include "serve/prompts.h"
#include "serve/request_fields.h"
#include "serve/request_taps.h"
#include "serve/sampler_fields.h"
#include "serve/site_fields.h"

namespace vitrine {
namespace {

constexpr int kMaxLogprobs = 20;
constexpr std::size_t kMaxLogprobIds = 1024;
constexpr int kMaxChoices = 128;  // OpenAI's
constexpr std::size_t kMaxStops = 1024;
constexpr std::size_t kMaxBiases = 2048;
constexpr std::size_t kMaxBadWords = 256, kMaxWordTokens = 64;
constexpr std::int64_t kDefaultTokens = 16;  // OpenAI's, of a completion

std::vector<std::string> read_stops(const ServedModel& model, RequestFields& fields) {
  const Json* const value = fields.find("stop");
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxStops)
    throw RequestError(kInvalid, "stop", "expected at most {} texts, got {}", kMaxStops, list.size());
  std::vector<std::string> stops;
  for (const Json& stop : list) {
    if (!stop.is_string()) throw wrong_type("stop", "texts", stop);
    if (!stop.get_ref<const std::string&>().empty()) stops.push_back(stop.get<std::string>());
  }
  if (!stops.empty()) tokenizer_of(model, "stop");
  return stops;
}

/// The bias of an id, or of each token of a text; false excludes them.
void add_bias(const ServedModel& model, const std::string& name, const Json& bias, CompletionRequest& request) {
  std::vector<std::int32_t> ids;
  if (const auto id = number_in<std::int32_t>(name)) {
    ids = {*id};
  } else if (model.tokenizer != nullptr) {
    ids = model.tokenizer->encode(name, SpecialTokens::none);
  }
  const auto is_unknown = [&](std::int32_t id) { return id < 0 || id >= model.vocab_size; };
  if (ids.empty() || std::any_of(ids.begin(), ids.end(), is_unknown)) {
    throw RequestError(kInvalid, "logit_bias", "expected ids from 0 to {}, got \"{}\"", model.vocab_size - 1, name);
  }
  if (request.logit_bias.size() + request.excluded.size() + ids.size() > kMaxBiases) {
    throw RequestError(kInvalid, "logit_bias", "expected at most {} ids", kMaxBiases);
  }
  if (bias == Json(false)) {
    request.excluded.insert(request.excluded.end(), ids.begin(), ids.end());
    return;
  }
  const Json entry = {{name, bias}};
  const auto summand = RequestFields(entry, "logit_bias").number(name, -100, 100);
  for (const std::int32_t id : ids) {
    if (summand) request.logit_bias.emplace_back(id, *summand);
  }
}

/// `{"id": summand}`, or llama-server's `[[id or text, summand or false]]`.
void read_biases(const ServedModel& model, RequestFields& fields, CompletionRequest& request) {
  const Json* const value = fields.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_structured()) throw wrong_type("logit_bias", "an object of ids and numbers", *value);
  for (const auto& [name, bias] : value->items()) {
    if (value->is_object()) {
      add_bias(model, name, bias, request);
      continue;
    }
    const bool is_pair = bias.is_array() && bias.size() == 2 && (bias[0].is_number_integer() || bias[0].is_string());
    if (!is_pair) throw wrong_type("logit_bias", "pairs of an id and a number", bias);
    add_bias(model, bias[0].is_string() ? bias[0].get<std::string>() : bias[0].dump(), bias[1], request);
  }
}

/// vLLM's `bad_words`: texts that do not occur, at the beginning of a word or within one.
void read_bad_words(const ServedModel& model, RequestFields& fields, CompletionRequest& request) {
  const auto words = fields.get<std::vector<std::string>>("bad_words", "a list of texts");
  if (!words || words->empty()) return;
  if (words->size() > kMaxBadWords) {
    throw RequestError(kInvalid, "bad_words", "expected at most {} texts, got {}", kMaxBadWords, words->size());
  }
  const Tokenizer& tokenizer = tokenizer_of(model, "bad_words");
  for (const std::string& word : *words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    const auto within = tokenizer.encode(bare, SpecialTokens::none);
    const auto after_space = tokenizer.encode(" " + bare, SpecialTokens::none);
    if (within.empty() || within.size() > kMaxWordTokens) {
      throw RequestError(kInvalid, "bad_words", "expected texts of 1 to {} tokens, got {}", kMaxWordTokens,
                         within.size());
    }
    request.bad_words.push_back(within);
    const bool is_other = after_space.size() == within.size() && after_space[0] != within[0];
    if (is_other) request.bad_words.push_back(after_space);
  }
}

/// The options of the table that the server has.
GenerateOptions read_rows(RequestFields& fields) {
  GenerateOptions options;
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInServer)) continue;
    read_option(fields, row.field_name(), row, row.field_limits(), options);
    for (const char* name : row.other_fields) read_option(fields, name, row, row.field_limits(), options);
  }
  if (options.top_k == -1) options.top_k = 0;  // vLLM's name of no limit
  options.beam = 1;
  return options;
}

/// The ids that end a text.
std::vector<std::int32_t> read_stop_ids(const ServedModel& model, RequestFields& fields,
                                        const CompletionRequest& request) {
  std::vector<std::int32_t> ids = request.is_chat ? model.chat_stop_ids : stop_ids_of(model.defaults, request.fills);
  if (fields.flag("ignore_eos").value_or(false)) ids.clear();
  if (const Json* const more = fields.find("stop_token_ids")) {
    const std::vector<std::int32_t> own = read_ids(*more, "stop_token_ids", model.vocab_size);
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

void read_streaming(RequestFields& fields, CompletionRequest& request) {
  request.streams = fields.flag("stream").value_or(false);
  const Json* const options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!request.streams) throw RequestError(kInvalid, "stream_options", "expected \"stream\": true with it");
  RequestFields own = fields.of(*options, "stream_options");
  request.streams_usage = own.flag("include_usage").value_or(false);
  request.streams_every_usage = own.flag("continuous_usage_stats").value_or(false) && request.streams_usage;
  own.ignore({"include_obfuscation"});
  own.finish();
}

/// How long a stream may be silent: llama-server's `sse_ping_interval`, in seconds; -1: for ever.
void read_silence(RequestFields& fields, CompletionRequest& request) {
  constexpr int kLongest = 1 << 20;
  const auto seconds = fields.whole<int>("sse_ping_interval", -1, kLongest);
  if (seconds == -1) request.silence.reset();
  if (seconds.value_or(0) > 0) request.silence = std::chrono::seconds(*seconds);
}

void choose_model(const ServedModel& model, RequestFields& fields, CompletionRequest& request) {
  ChosenModel chosen = read_model(model, fields);
  request.modifiers = chosen.modifiers(model).list;  // a model that continues texts has no head for labels
  request.model = std::move(chosen.name);
}

/// The field `vitrine`.
std::optional<SiteFields> read_own_wishes(const ServedModel& model, RequestFields& fields, CompletionRequest& request) {
  ChosenModifiers modifiers{std::move(request.modifiers)};
  std::optional<SiteFields> sites = read_wishes(model, fields, modifiers);
  request.modifiers = std::move(modifiers.list);
  return sites;
}

/// vLLM's `use_beam_search`: n beams, of which all are choices.
void read_search(RequestFields& fields, CompletionRequest& request) {
  request.searches = fields.flag("use_beam_search").value_or(false);
  if (!request.searches) return;
  if (request.streams) throw RequestError(kInvalid, "use_beam_search", "expected no \"stream\" with it");
  if (request.best_of != request.n) throw RequestError(kInvalid, "best_of", "expected n ({}) beams", request.n);
  GenerateOptions& given = request.given;
  given.greedy = true;
  given.beam = given.n_best = request.n;
  constexpr double kLargest = 1e6;
  given.length_penalty = fields.number("length_penalty", -kLargest, kLargest).value_or(1);
  given.early_stop = fields.flag("early_stopping").value_or(false) ? "yes" : "no";
}

/// The number of choices, by OpenAI's name or by llama-server's, and of the sequences from which they are chosen.
void read_choices(RequestFields& fields, CompletionRequest& request) {
  const auto n = fields.whole<int>("n", 1, kMaxChoices), other = fields.whole<int>("n_cmpl", 1, kMaxChoices);
  request.n = other.value_or(n.value_or(1));
  request.best_of = fields.whole<int>("best_of", request.n, kMaxChoices).value_or(request.n);
  if (request.best_of > request.n && request.streams) {
    throw RequestError(kInvalid, "best_of", "expected n ({}) with \"stream\", got {}", request.n, request.best_of);
  }
  read_search(fields, request);
}

/// vLLM's `repetition_detection`; without a largest size it is off.
std::optional<RepetitionLimit> read_repetition(RequestFields& fields) {
  const Json* const value = fields.find("repetition_detection");
  if (value == nullptr) return std::nullopt;
  constexpr std::int64_t kLongest = 1 << 16;
  RequestFields own = fields.of(*value, "repetition_detection");
  RepetitionLimit limit;
  limit.max_size = own.whole<std::int64_t>("max_pattern_size", 0, kLongest).value_or(0);
  limit.min_size = std::max<std::int64_t>(1, own.whole<std::int64_t>("min_pattern_size", 0, kLongest).value_or(0));
  const auto count = own.whole<std::int64_t>("min_count", 0, kLongest);
  own.finish();
  if (limit.max_size == 0) return std::nullopt;
  if (limit.min_size > limit.max_size || count.value_or(0) < 2) {
    throw RequestError(kInvalid, "repetition_detection",
                       "expected min_pattern_size <= max_pattern_size and a min_count of at least 2");
  }
  limit.min_count = *count;
  return limit;
}

/// The fields that both kinds of requests have. `max_tokens`: without the field, and without a choice of the
/// checkpoint.
void read_options(const ServedModel& model, std::string_view body, RequestFields& fields, std::uint64_t seed,
                  std::int64_t max_tokens, CompletionRequest& request) {
  request.given = read_rows(fields);
  if (request.given.suffix && request.given.suffix->empty())
    request.given.suffix.reset();  // as OpenAI's clients mean it
  if (request.given.suffix && !request.is_chat) request.fills = true;
  if (request.fills) require_fim_tokens(model, request.given.suffix ? "suffix" : "input_suffix");
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  const auto own_seed = fields.whole<std::int64_t>("seed", kLowest);
  request.given.seed = own_seed && *own_seed != -1 ? static_cast<std::uint64_t>(*own_seed) : seed;
  request.given.stop_ids = read_stop_ids(model, fields, request);
  request.given.stop = read_stops(model, fields);
  request.shows_stop = fields.flag("include_stop_str_in_output").value_or(false);
  request.shows_special = !fields.flag("skip_special_tokens").value_or(true);
  request.names_ids = fields.flag("return_tokens_as_token_ids").value_or(false);
  request.returns_ids = fields.flag("return_token_ids").value_or(false);
  request.cache_salt = fields.text("cache_salt").value_or("");
  read_biases(model, fields, request);
  read_bad_words(model, fields, request);
  const std::vector<std::int32_t> others = read_ids_not_allowed(fields, model.vocab_size);
  request.excluded.insert(request.excluded.end(), others.begin(), others.end());
  read_samplers(fields, request.given);
  request.max_tokens = max_tokens;
  if (request.given.max_tokens == -1) request.given.max_tokens = model.max_seq_len;
  read_streaming(fields, request);
  read_silence(fields, request);
  read_choices(fields, request);
  request.repetition = read_repetition(fields);
  read_constraint(body, fields, request.given);
  compile_constraint(model, request.given);
  request.texts = sampler_texts_of(model.defaults, request.given);
  read_foreign(fields, request.is_chat ? kOfChat : kOfCompletion);
}

/// The number of tokens of a prompt that leave space for the new ones, unless these have no limit.
std::int64_t longest_prompt(const ServedModel& model, const CompletionRequest& request, std::int64_t otherwise) {
  const std::int64_t n_new = request.given.max_tokens.value_or(otherwise);
  return n_new < model.max_seq_len ? model.max_seq_len - n_new : model.max_seq_len;
}

/// The log-probabilities that a request of vLLM's or llama-server's clients wants.
void read_logprob_wishes(const ServedModel& model, RequestFields& fields, CompletionRequest& request) {
  LogprobWishes& wishes = request.logprobs;
  wishes.n_of_prompt = fields.whole<int>("prompt_logprobs", 0, kMaxLogprobs);
  if (wishes.n_of_prompt && request.streams) {
    throw RequestError(kInvalid, "prompt_logprobs", "expected no \"stream\" with it");
  }
  if (const Json* const ids = fields.find("logprob_token_ids")) {
    wishes.ids = read_ids(*ids, "logprob_token_ids", model.vocab_size);
    if (wishes.ids.size() > kMaxLogprobIds) {
      throw RequestError(kInvalid, "logprob_token_ids", "expected at most {} ids, got {}", kMaxLogprobIds,
                         wishes.ids.size());
    }
  }
  request.reports_logprobs = request.reports_logprobs || !wishes.ids.empty();
  if (request.searches && (request.reports_logprobs || wishes.n_of_prompt)) {
    throw RequestError(kInvalid, "use_beam_search", "expected no log-probabilities with it");
  }
  wishes.are_sampled = fields.flag("post_sampling_probs").value_or(false);
  const bool mixes = !wishes.ids.empty() || request.best_of > request.n || (request.echoes && request.reports_logprobs);
  if (wishes.are_sampled && mixes) {
    throw RequestError(kInvalid, "post_sampling_probs", "expected no logprob_token_ids, best_of and echo with it");
  }
}

/// The number of alternatives of each token, by OpenAI's names or by llama-server's, which reports them if it is not 0.
void read_logprobs(const ServedModel& model, RequestFields& fields, std::optional<int> n, CompletionRequest& request) {
  const int probs = fields.whole<int>("n_probs", 0, kMaxLogprobs).value_or(0);
  request.given.n_logprobs = probs > 0 ? probs : n;
  request.reports_logprobs = request.reports_logprobs || probs > 0;
  read_logprob_wishes(model, fields, request);
}

/// llama-server's `reasoning_format`: whether the reasoning stays in the content.
bool read_reasoning_format(RequestFields& fields) {
  const std::string format = fields.text("reasoning_format").value_or("auto");
  for (const char* const known : {"none", "auto", "deepseek", "deepseek-legacy"}) {
    if (format == known) return format == "none";
  }
  fields.fail("reasoning_format", fmt::format("expected none, auto or deepseek, got \"{}\"", format));
}

/// Errors of calls are those of the field `tools`.
std::shared_ptr<const ChatAnswers> answers_of(const ServedModel& model, const AnswerWishes& wishes,
                                              const GenerateOptions& given, std::string prompt) {
  try {
    return chat_answers(*model.chat, model.defaults, wishes, given, std::move(prompt));
  } catch (const Error& e) {
    constexpr std::string_view kWhere = "[tools] ";
    std::string_view why = e.what();
    if (why.starts_with(kWhere)) why.remove_prefix(kWhere.size());
    throw RequestError(kInvalid, "tools", "{}", why);
  }
}

}  // namespace

GenerateRequest CompletionRequest::sequence(std::size_t number, RequestDefaults defaults) const {
  defaults.max_tokens = max_tokens;
  GenerateRequest request = make_request(defaults, prompt_of(number).ids, given, nullptr, &texts);
  request.sampling.logit_bias = logit_bias;
  request.rules.suppressed.insert(request.rules.suppressed.end(), excluded.begin(), excluded.end());
  request.rules.bad_words.insert(request.rules.bad_words.end(), bad_words.begin(), bad_words.end());
  request.shows_stop = shows_stop;
  request.shows_special = shows_special;
  request.owner = cache_salt;
  request.prediction = prediction;
  request.sequence = number % n_of_prompt();
  request.wants_logprobs = reports_logprobs || best_of > n;  // to rank the sequences
  request.wants_sampled_logprobs = logprobs.are_sampled && best_of == n;
  request.logprob_ids = logprobs.ids;
  request.limits.repetition = repetition;
  request.wants_prompt_logprobs = (reports_logprobs && echoes) || logprobs.n_of_prompt;
  request.n_prompt_logprobs = logprobs.n_of_prompt;
  request.prompt_logprobs_in_steps = request.wants_prompt_logprobs && streams;
  if (answers != nullptr) {
    answers->apply_to(request, given, defaults);
  }
  request.modifiers = modifiers;
  if (!recorders.empty()) request.taps = recorders[number];
  if (!features.empty()) request.taps = features[number];
  return request;
}

CompletionRequest parse_completion(const ServedModel& model, std::string_view body, std::uint64_t seed) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  CompletionRequest request;
  choose_model(model, fields, request);
  require_generation(model);
  read_options(model, body, fields, seed, kDefaultTokens, request);
  request.echoes = fields.flag("echo").value_or(false);
  const auto n_logprobs = fields.whole<int>("logprobs", 0, kMaxLogprobs);
  request.reports_logprobs = n_logprobs.has_value();
  read_logprobs(model, fields, n_logprobs, request);
  const Truncation truncation = read_truncation(fields, longest_prompt(model, request, kDefaultTokens));
  if (request.fills && (request.echoes || truncation.most < std::numeric_limits<std::int64_t>::max())) {
    throw RequestError(kInvalid, "suffix", "expected neither echo nor truncate_prompt_tokens with it");
  }
  const bool adds_special = fields.flag("add_special_tokens").value_or(true);
  const std::optional<SiteFields> sites = read_own_wishes(model, fields, request);
  fields.find("prompt");
  fields.finish();
  const SpecialTokens policy = adds_special ? SpecialTokens::apply : SpecialTokens::written;
  request.prompts = request.fills ? read_fim_prompts(model, fields, *request.given.suffix, adds_special)
                                  : read_prompts(model, fields, "prompt", policy, truncation);
  if (request.n_sequences() > kMaxTexts) {
    throw RequestError(kInvalid, "prompt", "expected at most {} sequences, got {} prompts of {}", kMaxTexts,
                       request.prompts.size(), request.best_of);
  }
  if (sites) add_taps(model, *sites, request);
  return request;
}

CompletionRequest parse_infill(const ServedModel& model, std::string_view body, std::uint64_t seed) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  CompletionRequest request;
  request.fills = true;
  choose_model(model, fields, request);
  require_generation(model);
  read_options(model, body, fields, seed, model.max_seq_len, request);  // up to the end of the context
  fields.refuse("suffix", "is not a field of /infill, which has \"input_suffix\"");
  read_logprobs(model, fields, std::nullopt, request);
  fields.refuse("prompt_logprobs", "is not supported by /infill");
  if (request.best_of > 1) throw RequestError(kInvalid, "n", "expected 1: /infill writes one text");
  request.prompts = {read_infill(model, fields, request.given.max_tokens.value_or(model.max_seq_len))};
  fields.finish();
  return request;
}

CompletionRequest parse_chat(const ServedModel& model, std::string_view body, std::uint64_t seed) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  CompletionRequest request;
  request.is_chat = true;
  choose_model(model, fields, request);
  require_generation(model);
  const ChatFormat& format = chat_of(model);
  read_options(model, body, fields, seed, model.max_seq_len, request);  // up to the end of the context
  request.reports_logprobs = fields.flag("logprobs").value_or(false);
  const auto n_logprobs = fields.whole<int>("top_logprobs", 0, kMaxLogprobs);
  if (n_logprobs.value_or(0) > 0 && !request.reports_logprobs) {
    throw RequestError(kInvalid, "top_logprobs", "expected \"logprobs\": true with it");
  }
  read_logprobs(model, fields, n_logprobs, request);
  const Truncation truncation = read_truncation(fields, longest_prompt(model, request, 0));
  const std::optional<SiteFields> sites = read_own_wishes(model, fields, request);
  RequestedChat chat = read_chat(model, body, fields);
  const bool keeps_reasoning = read_reasoning_format(fields);
  const AnswerWishes wishes{chat.tools.rules, !chat.tools.shown.is_null(), keeps_reasoning};
  request.has_functions = chat.tools.is_legacy;
  request.prediction = read_prediction(model, fields);
  if (fields.flag("echo").value_or(false)) request.lead = chat.continued;
  request.returns_prompt = fields.flag("return_prompt_text").value_or(false);
  chat.how.adds_special_tokens = fields.flag("add_special_tokens").value_or(false);
  fields.finish();
  Prompt prompt;
  EncodedChat encoded = format.encoded(chat.conversation, chat.how);
  if (request.returns_prompt) prompt.text = encoded.text;
  prompt.ids = truncation.apply(std::move(encoded.ids));
  check_prompt(model, prompt.ids, "messages");
  request.answers = answers_of(model, wishes, request.given, std::move(encoded.text));
  request.prompts = {std::move(prompt)};
  if (sites) add_taps(model, *sites, request);
  return request;
}

}  // namespace vitrine
