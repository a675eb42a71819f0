#include "serve/site_fields.h"

#include <bit>

#include "tokenizer/read/base64.h"

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little, "values are sent as they are in memory");

constexpr std::size_t kMaxGlobs = 256, kMaxWrites = 1 << 14, kMaxSiteText = 256;
constexpr std::string_view kSites = "sites", kSet = "set";

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

}  // namespace

SiteFields read_sites(const ServedModel& model, RequestFields& fields) {
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
  return result;
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

}  // namespace vitrine
