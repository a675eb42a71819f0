// What Ollama's interface says about models: /api/tags, /api/ps and /api/show.
#include <algorithm>
#include <array>
#include <map>

#include "generate/fim_prompt.h"
#include "model/count.h"
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
  for (char& c : stored.type) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
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

Json entry_of(const ServedModel& model, const std::string& name) {
  const Stored stored = stored_of(model);
  return {{"name", name},         {"model", name},           {"modified_at", loaded_text(model)},
          {"size", stored.bytes}, {"digest", stored.digest}, {"details", details_of(model, stored)}};
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

Json ollama_tags(const ServedModel& model, const RouteRequest&) {
  Json list = Json::array();
  for (const std::string& name : model.names) list.push_back(ollama::entry_of(model, name));
  return {{"models", std::move(list)}};
}

/// The model that is loaded, which is never unloaded.
Json ollama_ps(const ServedModel& model, const RouteRequest&) {
  constexpr auto kForever = std::chrono::hours(24 * 365 * 100);
  Json entry = ollama::entry_of(model, model.names.front());
  entry.erase("modified_at");
  entry["expires_at"] = ollama::time_text(std::chrono::system_clock::now() + kForever);
  entry["size_vram"] = 0;
  entry["context_length"] = model.max_seq_len;
  return {{"models", Json::array({std::move(entry)})}};
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
