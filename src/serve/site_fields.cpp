#include "serve/site_fields.h"

#include <algorithm>
#include <bit>

#include "inspect/probe_values.h"
#include "serve/modifier_fields.h"
#include "serve/prompts.h"
#include "serve/routes.h"
#include "tokenizer/read/base64.h"

namespace vitrine {

namespace {

static_assert(std::endian::native == std::endian::little, "values are sent as they are in memory");

constexpr std::size_t kMaxGlobs = 256, kMaxWrites = 1 << 14, kMaxSiteText = 256;
constexpr std::string_view kSites = "sites", kSet = "set", kFeatures = "features";
constexpr int kDefaultTop = 5, kMaxTop = 1 << 20;

std::vector<std::string> read_texts(RequestFields& fields, std::string_view name, std::size_t most) {
  const Json* const list = fields.find(name);
  const std::string where = fields.name_of(name);
  if (list == nullptr) return {};
  if (!list->is_array()) throw wrong_type(where, "a list of strings", *list);
  if (list->size() > most) throw RequestError(kInvalid, where, "expected at most {} texts, got {}", most, list->size());
  std::vector<std::string> texts;
  for (const Json& text : *list) {
    if (!text.is_string()) throw wrong_type(where, "strings", text);
    texts.push_back(text.get<std::string>());
    if (texts.back().empty() || texts.back().size() > kMaxSiteText) {
      throw RequestError(kInvalid, where, "expected texts of 1 to {} bytes, got {}", kMaxSiteText, texts.back().size());
    }
  }
  return texts;
}

/// `{"top": 5}`
std::optional<std::size_t> read_top(RequestFields& fields, const SiteFields& sites) {
  const Json* const value = fields.find(kFeatures);
  if (value == nullptr) return std::nullopt;
  RequestFields own = fields.of(*value, kFeatures);
  const int top = own.whole<int>("top", 1, kMaxTop).value_or(kDefaultTop);
  own.finish();
  if (has_features(sites.dictionaries)) return static_cast<std::size_t>(top);
  throw RequestError(kInvalid, fields.name_of(kFeatures), "the server has no dictionaries (--sae)");
}

}  // namespace

SiteFields read_sites(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers) {
  if (!model.can_inspect) {
    throw RequestError(kForbidden, "vitrine", "this server does not let requests read or change values");
  }
  SiteFields result;
  result.globs = read_texts(fields, kSites, kMaxGlobs);
  for (const std::string& text : read_texts(fields, kSet, kMaxWrites)) {
    if (text.find("=@") != text.npos) {
      throw RequestError(kInvalid, fields.name_of(kSet), "{}: a request names no file", text);
    }
    result.writes.push_back(with_site_errors(fields, [&] { return parse_site_write(text); }));
  }
  read_dictionaries(model, fields, modifiers);
  if (modifiers.list) result.dictionaries = modifiers.list->dictionaries;
  return result;
}

std::optional<SiteFields> read_wishes(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers) {
  const Json* const value = fields.find("vitrine");
  if (value == nullptr) return std::nullopt;
  RequestFields own = fields.of(*value, "vitrine");
  const bool chooses = read_modifiers(model, own, modifiers);
  const auto is_absent = [&](std::string_view name) { return own.find(name) == nullptr; };
  const bool only_modifies =
      chooses && is_absent(kSites) && is_absent(kSet) && is_absent(kFeatures) && is_absent("sae_use");
  std::optional<SiteFields> sites;
  if (model.can_inspect || !only_modifies) {
    sites = read_sites(model, own, modifiers);
    sites->top = read_top(own, *sites);
  }
  own.finish();
  return sites;
}

std::int64_t feature_bytes(const SiteFields& fields, std::int64_t n) {
  std::int64_t bytes = 0;
  for (const AppliedDictionary& applied : fields.dictionaries) {
    if (is_probe(*applied.dictionary)) continue;
    const std::int64_t most = std::min(static_cast<std::int64_t>(fields.top.value_or(0)), applied.dictionary->d_sae());
    bytes += n * most * static_cast<std::int64_t>(sizeof(SparseValue));
  }
  return bytes;
}

void check_trace_bytes(const ServedModel& model, std::int64_t bytes, const std::string& where) {
  if (bytes <= model.max_trace_bytes) return;
  throw RequestError(kInvalid, where, "the values have up to {} bytes, the server returns at most {}; select fewer",
                     bytes, model.max_trace_bytes);
}

RequestError site_error_of(const RequestFields& fields, const Error& error) {
  const std::string message = error.what();
  for (const std::string_view name : {kSites, kSet}) {
    const std::string own = fmt::format("[--{}] ", name);
    if (message.starts_with(own)) return {kInvalid, fields.name_of(name), "{}", message.substr(own.size())};
  }
  return {kMalformed, error};
}

Json features_json(std::span<const ActiveFeatures> all) {
  Json list = Json::array();
  for (const ActiveFeatures& own : all) {
    Json tokens = Json::array();
    for (const std::vector<SparseValue>& row : own.rows.rows) tokens.push_back(features_json(row));
    const std::string& name = own.dictionary->name;
    list.push_back({{"name", name.empty() ? Json() : Json(name)},
                    {"site", name_of(own.dictionary->output)},
                    {"d_sae", own.dictionary->d_sae()},
                    {"tokens", std::move(tokens)}});
  }
  return list;
}

Json sites_json(std::span<const SequenceRecorder::Recorded> values) {
  Json list = Json::array();
  for (const SequenceRecorder::Recorded& value : values) {
    const auto bytes = std::as_bytes(std::span(value.values));
    list.push_back({{"name", value.name},
                    {"shape", value.shape.sizes()},
                    {"data", encode_base64({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()})}});
  }
  return list;
}

namespace {

class TraceReply : public JobReply {
 public:
  TraceReply(TraceRequest request, const RouteRequest& from)
      : JobReply(std::make_shared<Job>(from.client, std::vector{request.sequence()}, false, from.notify)),
        request_(std::move(request)) {}

  Usage usage() const override { return {std::ssize(request_.ids), 0, 0}; }
  HttpReply reply() override { return {200, request_.file(), "application/octet-stream"}; }

 private:
  TraceRequest request_;
};

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> trace(const ServedModel& model, const RouteRequest& request) {
  return std::make_shared<TraceReply>(parse_trace(model, request.body), request);
}

}  // namespace routes

GenerateRequest TraceRequest::sequence() const {
  GenerateRequest request;
  request.prompt = ids;
  request.max_tokens = 0;
  request.modifiers = modifiers;
  request.taps = recorder;
  return request;
}

std::string TraceRequest::file() const {
  std::string file;
  const std::int64_t header_bytes = trace_header_bytes(recorder->max_sites());
  file.reserve(static_cast<std::size_t>(header_bytes + recorder->bytes()) + 64);
  MemorySink sink(file);
  SafetensorsWriter writer(sink, "trace", header_bytes);
  for (const SequenceRecorder::Recorded& value : recorder->recorded()) {
    writer.begin(value.name, DType::f32, {value.shape.sizes().begin(), value.shape.sizes().end()});
    writer.append(std::as_bytes(std::span(value.values)));
  }
  writer.commit();
  return file;
}

TraceRequest parse_trace(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  ChosenModifiers modifiers = read_model(model, fields).modifiers(model);
  read_modifiers(model, fields, modifiers);
  require_generation(model);
  SiteFields sites = read_sites(model, fields, modifiers);
  const bool adds_special = fields.flag("add_special_tokens").value_or(true);
  fields.find("prompt");
  fields.finish();
  const SpecialTokens policy = adds_special ? SpecialTokens::apply : SpecialTokens::written;
  auto prompts = read_prompts(model, fields, "prompt", policy, {});
  if (prompts.size() != 1) throw RequestError(kInvalid, "prompt", "expected one text, got {}", prompts.size());
  TraceRequest request;
  request.modifiers = std::move(modifiers.list);
  request.ids = std::move(prompts.front().ids);
  request.recorder = with_site_errors(fields, [&] {
    return std::make_shared<TextRecorder>(*model.model, std::move(sites.globs), std::move(sites.writes),
                                          std::ssize(request.ids), sites.dictionaries);
  });
  check_trace_bytes(model, request.recorder->bytes(), "sites");
  return request;
}

}  // namespace vitrine
