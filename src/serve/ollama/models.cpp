// What Ollama's interface says about models: /api/tags, /api/ps and /api/show.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "generate/fim_prompt.h"
#include "model/count.h"
#include "serve/model_choice.h"
#include "serve/ollama/request.h"
#include "serve/ollama/times.h"
#include "serve/routes.h"

namespace vitrine {
namespace ollama {
namespace {

/// A number of bytes that follow each other (FNV-1a), four times, each from another start.
class Digest {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      for (std::uint64_t& part : parts_) part = (part ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
  }
  /// 64 digits, as many as clients expect.
  std::string text() const { return fmt::format("{:016x}", fmt::join(parts_, "")); }

 private:
  std::array<std::uint64_t, 4> parts_ = {0xcbf29ce484222325, 0x84222325cbf29ce4, 0x9e3779b97f4a7c15,
                                         0xbf58476d1ce4e5b9};
};

/// A model as it is stored.
struct Stored {
  std::int64_t n_params = 0, bytes = 0;
  std::string digest{};  ///< Of the names, shapes, types and first elements of its parameters.
  std::string type{};    ///< That of the most elements, such as "BF16".
};

std::string in_upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

Stored stored_of(const ServedModel& model) {
  constexpr std::int64_t kElements = 256;  // of a row: the longest block has so many
  if (model.model == nullptr) return {};
  Stored stored{.n_params = count_params(model.model->config())};
  std::map<DType, std::int64_t> counts;
  Digest digest;
  for_each_param(
      model.model->config(), model.model->params(),
      [&](const Param& param, const std::string& name, const Shape& shape) {
        const MatrixView& view = param.view;
        stored.bytes += bytes_of(view.dtype, shape.count());
        counts[view.dtype] += shape.count();
        digest.add(fmt::format("{} {} {};", name, name_of(view.dtype), fmt::join(shape.sizes(), " ")));
        if (view.data == nullptr || view.col_stride != 1) return;
        const std::int64_t n = std::min(view.cols, kElements);
        digest.add({reinterpret_cast<const char*>(view.data), static_cast<std::size_t>(bytes_of(view.dtype, n))});
      });
  stored.digest = digest.text();
  std::int64_t most = 0;
  for (const auto& [type, n] : counts) {
    if (n <= most) continue;
    most = n;
    stored.type = name_of(type);
  }
  stored.type = in_upper_case(stored.type);
  return stored;
}

/// A number of parameters, such as "7.6B".
std::string size_text(std::int64_t n) {
  const auto number = static_cast<double>(n);
  if (n >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (n >= 1'000'000) return fmt::format("{:.2f}M", number / 1e6);
  return n >= 1'000 ? fmt::format("{:.2f}K", number / 1e3) : std::to_string(n);
}

Json details_of(const ServedModel& model, const Stored& stored) {
  Json families = Json::array();
  if (!model.family.empty()) families.push_back(model.family);
  return {{"parent_model", ""},
          {"format", ""},
          {"family", model.family},
          {"families", std::move(families)},
          {"parameter_size", size_text(stored.n_params)},
          {"quantization_level", stored.type}};
}

std::string loaded_text(const ServedModel& model) {
  return time_text(std::chrono::system_clock::time_point(std::chrono::seconds(model.created)));
}

/// `stored`: of a model that is in memory; otherwise less is known.
Json entry_of(const ModelStatus& status, const std::optional<Stored>& stored) {
  const ModelSummary& summary = status.summary;
  Json families = Json::array();
  if (!summary.family.empty()) families.push_back(summary.family);
  Json details = {{"parent_model", ""}, {"format", ""}, {"family", summary.family}, {"families", std::move(families)}};
  details["parameter_size"] = size_text(stored ? stored->n_params : summary.n_parameters);
  details["quantization_level"] = stored ? stored->type : in_upper_case(summary.quantization);
  const std::chrono::system_clock::time_point time{std::chrono::seconds(summary.modified)};
  return {{"modified_at", time_text(time)},
          {"size", stored ? stored->bytes : summary.bytes},
          {"digest", stored ? stored->digest : ""},
          {"details", std::move(details)}};
}
Json named(Json entry, const std::string& name) {
  entry["name"] = entry["model"] = name;
  return entry;
}

/// What the model can do, as far as it is known.
Json capabilities_of(const ServedModel& model) {
  Json can = Json::array();
  if (model.can_generate) can.push_back("completion");
  if (model.can_generate && model.chat != nullptr) {
    const answer::AnswerFormat& answers = model.chat->answers();
    if (answers.calls) can.push_back("tools");
    if (answers.reasoning) can.push_back("thinking");
  }
  if (model.can_generate && can_fill(model.defaults)) can.push_back("insert");
  if (!model.can_generate) can.push_back("embedding");
  return can;
}

/// The values of the sampler that requests without options have.
std::string parameters_of(const ServedModel& model) {
  const SamplingConfig sampling = choose_sampling({}, model.defaults).config;
  std::string text;
  const auto add = [&](const char* name, double value) {
    text += fmt::format("{}{:<30} {}", text.empty() ? "" : "\n", name, value);
  };
  add("temperature", sampling.temperature);
  add("top_k", sampling.top_k);
  add("top_p", sampling.top_p);
  add("min_p", sampling.min_p);
  add("repeat_penalty", sampling.repeat_penalty);
  return text;
}

Json info_of(const ServedModel& model, const Stored& stored) {
  const std::string family = model.family.empty() ? "vitrine" : model.family;
  Json info = {{"general.architecture", family},
               {"general.parameter_count", stored.n_params},
               {family + ".context_length", model.max_seq_len},
               {family + ".embedding_length", model.d_model},
               {family + ".vocab_size", model.vocab_size}};
  if (model.model != nullptr) info[family + ".block_count"] = model.model->config().n_layers();
  return info;
}

}  // namespace
}  // namespace ollama

namespace routes {

Json ollama_tags(ModelRegistry& models, const RouteRequest&) {
  Json list = Json::array();
  for (const ModelStatus& status : models.list()) {
    const ModelEntry& source = *status.source;
    std::optional<ollama::Stored> stored;
    if (const auto use = models.look_at(source)) stored = ollama::stored_of(use->model().served());
    Json entry = ollama::entry_of(status, stored);
    list.push_back(ollama::named(entry, source.name));
    for (const std::string& alias : source.aliases) list.push_back(ollama::named(entry, alias));
    entry["details"]["parent_model"] = source.name;
    for (const std::string& adapter : adapters_of(models, source)) {
      list.push_back(ollama::named(entry, source.name + ":" + adapter));
    }
  }
  return {{"models", std::move(list)}};
}

Json ollama_ps(ModelRegistry& models, const RouteRequest&) {
  constexpr auto kForever = std::chrono::hours(24 * 365 * 100);
  Json list = Json::array();
  for (const ModelStatus& status : models.list()) {
    const auto use = models.look_at(*status.source);
    if (!use) continue;
    const ServedModel& model = use->model().served();
    Json entry = ollama::named(ollama::entry_of(status, ollama::stored_of(model)), status.source->name);
    entry.erase("modified_at");
    entry["expires_at"] = ollama::time_text(std::chrono::system_clock::now() + status.stays.value_or(kForever));
    entry["size_vram"] = 0;
    entry["context_length"] = model.max_seq_len;
    list.push_back(std::move(entry));
  }
  return {{"models", std::move(list)}};
}

Json ollama_show(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ollama::read_name(model, fields);
  fields.ignore({"system", "template", "options", "verbose"});
  fields.finish();
  const ollama::Stored stored = ollama::stored_of(model);
  return {{"modelfile", ""},
          {"parameters", ollama::parameters_of(model)},
          {"template", model.chat != nullptr ? model.templates.choose(false, "model") : ""},
          {"details", ollama::details_of(model, stored)},
          {"model_info", ollama::info_of(model, stored)},
          {"capabilities", ollama::capabilities_of(model)},
          {"modified_at", ollama::loaded_text(model)}};
}

}  // namespace routes

}  // namespace vitrine
