#include "serve/completion_request.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/text.h"
#include "generate/read_option.h"
#include "inspect/text_recorder.h"
#include "serve/prompts.h"
#include "serve/request_fields.h"
#include "serve/site_fields.h"

namespace vitrine {
namespace {

constexpr int kMaxLogprobs = 20;
constexpr int kMaxChoices = 32;
constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxBiases = 2048;
constexpr std::int64_t kDefaultTokens = 16;  // OpenAI's, of a completion

std::vector<std::string> read_stops(const ServedModel& model, RequestFields& fields) {
  const Json* const value = fields.find("stop");
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxStops)
    throw RequestError(kInvalid, "stop", "expected at most {} texts, got {}", kMaxStops, list.size());
  std::vector<std::string> stops;
  for (const Json& stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty()) {
      throw wrong_type("stop", "texts of at least one character", stop);
    }
    stops.push_back(stop.get<std::string>());
  }
  if (!stops.empty()) tokenizer_of(model, "stop");
  return stops;
}

std::vector<std::pair<std::int32_t, double>> read_biases(const ServedModel& model, RequestFields& fields) {
  const Json* const value = fields.find("logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object()) throw wrong_type("logit_bias", "an object of ids and numbers", *value);
  if (value->size() > kMaxBiases) {
    throw RequestError(kInvalid, "logit_bias", "expected at most {} ids, got {}", kMaxBiases, value->size());
  }
  std::vector<std::pair<std::int32_t, double>> biases;
  RequestFields entries(*value, "logit_bias");
  for (const auto& [name, bias] : value->items()) {
    const auto id = number_in<std::int32_t>(name);
    if (!id || *id < 0 || *id >= model.vocab_size) {
      throw RequestError(kInvalid, "logit_bias", "expected ids from 0 to {}, got \"{}\"", model.vocab_size - 1, name);
    }
    if (const auto summand = entries.number(name, -100, 100)) biases.emplace_back(*id, *summand);
  }
  return biases;
}

/// The options of the table that the server has.
GenerateOptions read_rows(RequestFields& fields) {
  GenerateOptions options;
  for (const OptionRow& row : option_rows()) {
    if (row.is_in(kInServer)) read_option(fields, row.field_name(), row, row.field_limits(), options);
  }
  if (options.top_k == -1) options.top_k = 0;  // vLLM's name of no limit
  options.beam = 1;
  return options;
}

/// The ids that end a text.
std::vector<std::int32_t> read_stop_ids(const ServedModel& model, RequestFields& fields, bool is_chat) {
  std::vector<std::int32_t> ids = is_chat ? model.chat_stop_ids : model.defaults.stop_ids;
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
  RequestFields own(*options, "stream_options");
  request.streams_usage = own.flag("include_usage").value_or(false);
  own.ignore({"include_obfuscation"});
  own.finish();
}

/// The field of vitrine's own reports.
std::optional<SiteFields> read_reports(const ServedModel& model, RequestFields& fields) {
  const Json* const value = fields.find("vitrine");
  if (value == nullptr) return std::nullopt;
  RequestFields own(*value, "vitrine");
  SiteFields sites = read_sites(model, own);
  own.finish();
  return sites;
}

/// The number of tokens of a sequence that are fed. The last one that is generated is not.
std::int64_t max_fed(const ServedModel& model, const GenerateRequest& sequence) {
  const std::int64_t n_prompt = std::ssize(sequence.prompt);
  return std::min(model.max_seq_len, n_prompt + std::max<std::int64_t>(0, sequence.max_tokens - 1));
}

/// Gives each sequence of a request taps of its own.
void add_taps(const ServedModel& model, const SiteFields& sites, CompletionRequest& request) {
  request.reports_ids = true;
  if (sites.globs.empty() && sites.writes.empty()) return;
  const Json none = Json::object();
  const RequestFields fields(none, "vitrine");
  const SequenceRecorder recorder =
      with_site_errors(fields, [&] { return SequenceRecorder(*model.model, sites.globs, sites.writes); });
  std::map<std::int64_t, std::int64_t> bytes_of;  // by the number of tokens
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < request.n_sequences(); ++i) {
    const std::int64_t n = max_fed(model, request.sequence(i, model.defaults));
    const auto [at, is_new] = bytes_of.try_emplace(n);
    if (is_new) at->second = recorded_bytes(model.model->config(), sites.globs, n);
    check_trace_bytes(model, bytes += at->second, "vitrine.sites");
  }
  for (std::size_t i = 0; i < request.n_sequences(); ++i) {
    request.recorders.push_back(std::make_shared<SequenceRecorder>(recorder));
  }
}

void refuse_unsupported(RequestFields& fields) {
  for (const char* name : {"tools", "functions", "function_call"}) fields.refuse(name, "tools are not supported");
  if (const auto* const choice = fields.find("tool_choice");
      choice != nullptr && *choice != "none" && *choice != "auto") {
    throw RequestError(kInvalid, "tool_choice", "tools are not supported");
  }
  if (const Json* const format = fields.find("response_format")) {
    RequestFields own(*format, "response_format");
    const std::string type = own.text("type").value_or("");
    if (type != "text") throw RequestError(kInvalid, "response_format", "expected the type \"text\", got \"{}\"", type);
  }
  for (const char* name : {"suffix", "audio", "prediction", "web_search_options"})
    fields.refuse(name, "is not supported");
  fields.ignore(
      {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"});
}

/// The fields that both kinds of requests have. `max_tokens`: without the field, and without a choice of the
/// checkpoint.
void read_options(const ServedModel& model, RequestFields& fields, std::uint64_t seed, std::int64_t max_tokens,
                  CompletionRequest& request) {
  request.given = read_rows(fields);
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  const auto own_seed = fields.whole<std::int64_t>("seed", kLowest);
  request.given.seed = own_seed ? static_cast<std::uint64_t>(*own_seed) : seed;
  request.given.stop_ids = read_stop_ids(model, fields, request.is_chat);
  request.given.stop = read_stops(model, fields);
  request.logit_bias = read_biases(model, fields);
  request.max_tokens = max_tokens;
  request.n = fields.whole<int>("n", 1, kMaxChoices).value_or(1);
  request.best_of = request.n;
  read_streaming(fields, request);
  refuse_unsupported(fields);
}

}  // namespace

GenerateRequest CompletionRequest::sequence(std::size_t number, RequestDefaults defaults) const {
  defaults.max_tokens = max_tokens;
  GenerateRequest request = make_request(defaults, prompt_of(number).ids, given);
  request.sampling.logit_bias = logit_bias;
  request.sequence = number % static_cast<std::size_t>(best_of);
  request.wants_logprobs = reports_logprobs || best_of > n;  // to rank the sequences
  request.wants_prompt_logprobs = reports_logprobs && echoes;
  request.prompt_logprobs_in_steps = request.wants_prompt_logprobs && streams;
  if (!recorders.empty()) request.taps = recorders[number];
  return request;
}

CompletionRequest parse_completion(const ServedModel& model, std::string_view body, std::uint64_t seed) {
  const Json json = parse_body(body);
  RequestFields fields(json);
  CompletionRequest request;
  request.model = read_model_name(model, fields);
  require_generation(model);
  read_options(model, fields, seed, kDefaultTokens, request);
  request.echoes = fields.flag("echo").value_or(false);
  request.given.n_logprobs = fields.whole<int>("logprobs", 0, kMaxLogprobs);
  request.reports_logprobs = request.given.n_logprobs.has_value();
  request.best_of = fields.whole<int>("best_of", request.n, kMaxChoices).value_or(request.n);
  if (request.best_of > request.n && request.streams) {
    throw RequestError(kInvalid, "best_of", "expected n ({}) with \"stream\", got {}", request.n, request.best_of);
  }
  const bool adds_special = fields.flag("add_special_tokens").value_or(true);
  const std::optional<SiteFields> sites = read_reports(model, fields);
  fields.find("prompt");
  fields.finish();
  request.prompts = read_prompts(model, fields, "prompt", adds_special ? SpecialTokens::apply : SpecialTokens::written);
  if (request.n_sequences() > kMaxTexts) {
    throw RequestError(kInvalid, "prompt", "expected at most {} sequences, got {} prompts of {}", kMaxTexts,
                       request.prompts.size(), request.best_of);
  }
  if (sites) add_taps(model, *sites, request);
  return request;
}

CompletionRequest parse_chat(const ServedModel& model, std::string_view body, std::uint64_t seed) {
  const Json json = parse_body(body);
  RequestFields fields(json);
  CompletionRequest request;
  request.is_chat = true;
  request.model = read_model_name(model, fields);
  require_generation(model);
  const ChatFormat& format = chat_of(model);
  read_options(model, fields, seed, model.max_seq_len, request);  // up to the end of the context
  std::optional<std::int64_t>& max_tokens = request.given.max_tokens;
  if (const auto own = fields.whole<std::int64_t>("max_completion_tokens", 0, 1 << 30)) {
    if (max_tokens && max_tokens != own) {
      throw RequestError(kInvalid, "max_completion_tokens", "expected the value of max_tokens ({}), got {}",
                         *max_tokens, *own);
    }
    max_tokens = own;
  }
  request.reports_logprobs = fields.flag("logprobs").value_or(false);
  request.given.n_logprobs = fields.whole<int>("top_logprobs", 0, kMaxLogprobs);
  if (request.given.n_logprobs && !request.reports_logprobs) {
    throw RequestError(kInvalid, "top_logprobs", "expected \"logprobs\": true with it");
  }
  if (const Json* const modalities = fields.find("modalities");
      modalities != nullptr && *modalities != Json::array({"text"})) {
    throw RequestError(kInvalid, "modalities", "expected [\"text\"]");
  }
  const std::optional<SiteFields> sites = read_reports(model, fields);
  const ChatHistory conversation = read_messages(fields);
  fields.finish();
  Prompt prompt;
  prompt.ids = format.encode(conversation, true);
  check_prompt(model, prompt.ids, "messages");
  request.prompts = {std::move(prompt)};
  if (sites) add_taps(model, *sites, request);
  return request;
}

}  // namespace vitrine
