#include "checkpoint/hugging_face/sentence_transformers.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/unicode.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// The kind of pooling that 1_Pooling/config.json selects, one of those that are supported.
std::string read_pooling(const std::string& path, bool& pools_prompt) {
  constexpr std::pair<const char*, const char*> kModes[] = {{"pooling_mode_cls_token", "cls"},
                                                            {"pooling_mode_mean_tokens", "mean"},
                                                            {"pooling_mode_max_tokens", "max"},
                                                            {"pooling_mode_lasttoken", "last"}};
  const Json json = read_json_file(path);
  ConfigReader c(json, path);
  pools_prompt = c.flag_or("include_prompt", true);
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"}) {
    if (c.flag_or(key, false)) throw Unsupported(path, "{} is not supported (cls, mean, max and lasttoken are)", key);
  }
  if (const std::string mode = c.text_or("pooling_mode", ""); !mode.empty()) {
    if (mode == "lasttoken") return "last";
    if (mode == "cls" || mode == "mean" || mode == "max") return mode;
    throw Unsupported(path, "pooling_mode \"{}\" is not supported (cls, mean, max and lasttoken are)", mode);
  }
  std::string found;
  for (const auto& [key, name] : kModes) {
    if (!c.flag_or(key, false)) continue;
    if (!found.empty())
      throw Unsupported(path, "{} and {} together are not supported: leave one of them true", found, name);
    found = name;
  }
  if (found.empty()) throw BadCheckpoint(path, "expected a pooling mode");
  return found;
}

void read_modules(const std::string& folder, SentenceConfig& config) {
  const fs::path modules = fs::path(folder) / "modules.json";
  std::error_code error;
  if (!fs::exists(modules, error)) return;
  const Json list = read_json_file(modules.string());
  if (!list.is_array()) throw BadCheckpoint(modules.string(), "expected a list of modules");
  config.normalize = false;
  for (const Json& module : list) {
    ConfigReader c(module, modules.string());
    const std::string type = c.text_or("type", ""), path = c.text_or("path", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling") {
      const fs::path file = fs::path(folder) / fs::path(path).filename() / "config.json";
      config.pooling = read_pooling(file.string(), config.pools_prompt);
    } else if (kind == "Normalize") {
      config.normalize = true;
    } else if (kind != "Transformer") {
      throw Unsupported(modules.string(),
                        "module {} is not supported: without it in this list, the vectors are those before it", type);
    }
  }
}

/// A function that the outputs of a CrossEncoder go through, by its class in torch.
ScoreFunction score_function_named(const std::string& name, const std::string& path) {
  constexpr std::pair<std::string_view, ScoreFunction> kKnown[] = {
      {"Identity", ScoreFunction::none}, {"Sigmoid", ScoreFunction::sigmoid}, {"Softmax", ScoreFunction::softmax}};
  for (const auto& [known, function] : kKnown) {
    if (name.starts_with("torch.") && name.substr(name.rfind('.') + 1) == known) return function;
  }
  throw Unsupported(path, "activation function {} is not supported (torch.nn's Identity, Sigmoid and Softmax are)",
                    name);
}

Similarity similarity_named(const std::string& name, const std::string& path) {
  constexpr std::string_view kNames[] = {"cosine", "dot", "euclidean", "manhattan"};
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at != std::end(kNames)) return static_cast<Similarity>(at - std::begin(kNames));
  throw Unsupported(path, "similarity_fn_name: expected cosine, dot, euclidean or manhattan, got \"{}\"", name);
}

/// The function of a CrossEncoder in config.json: that of today, else that of versions before 4.
void read_score_function(const std::string& folder, SentenceConfig& config) {
  const std::string path = (fs::path(folder) / "config.json").string();
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const Json json = read_json_file(path);
  if (!json.is_object()) return;
  ConfigReader c(json, path);
  std::string name = c.text_or("sbert_ce_default_activation_function", "");
  if (auto own = c.object("sentence_transformers")) name = own->text_or("activation_fn", name);
  if (!name.empty()) config.score = score_function_named(name, path);
}

/// What config_sentence_transformers.json says of scores, and its prompts with the one that is used without a name.
void read_prompts(const std::string& folder, SentenceConfig& config) {
  const std::string path = (fs::path(folder) / "config_sentence_transformers.json").string();
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const Json json = read_json_file(path);
  const JsonFields fields(json, "the configuration", path);
  if (const std::string name = fields.string("activation_fn", ""); !name.empty()) {
    config.score = score_function_named(name, path);
  }
  const Json* const similarity = fields.find("similarity_fn_name");
  if (similarity != nullptr && !similarity->is_null()) {
    config.similarity = similarity_named(fields.string("similarity_fn_name"), path);
  }
  if (const Json* prompts = fields.find("prompts"); prompts != nullptr) {
    const JsonFields texts(*prompts, "prompts", path);
    for (const auto& [name, text] : prompts->items()) {
      if (!text.is_null()) config.prompts[name] = texts.string(name);
    }
  }
  const std::string name = fields.string("default_prompt_name", "");
  if (!name.empty()) config.use_prompt(name, path);
}

/// The number of tokens that a tokenizer puts after every text.
std::int64_t suffix_of(const Tokenizer& tokenizer) {
  const auto empty = tokenizer.encode("", SpecialTokens::apply), text = tokenizer.encode("a", SpecialTokens::apply);
  return std::mismatch(empty.rbegin(), empty.rend(), text.rbegin(), text.rend()).first - empty.rbegin();
}

}  // namespace

void SentenceConfig::use_prompt(const std::string& name, std::string_view where) {
  const auto found = prompts.find(name);
  if (found == prompts.end()) {
    std::string names;
    for (const auto& [known, text] : prompts) names += (names.empty() ? "" : ", ") + known;
    throw BadInput(where, "expected the name of a prompt ({}), got {}", names.empty() ? "there is none" : names, name);
  }
  if (!pools_prompt && !found->second.empty()) {
    throw Unsupported(where, "the prompt {}: pooling without the rows of a prompt is not supported", name);
  }
  prompt = found->second;
}

std::string SentenceConfig::prepared(const std::string& text) const { return without_prompt(prompt + text); }

std::string SentenceConfig::without_prompt(const std::string& text) const {
  return lowercase ? vitrine::lowercase(text) : text;
}

SentenceConfig read_sentence_config(const std::string& path, const Tokenizer* tokenizer, std::int64_t context) {
  SentenceConfig config;
  config.max_tokens = context;
  if (tokenizer != nullptr) config.n_suffix = suffix_of(*tokenizer);
  std::error_code error;
  if (!fs::is_directory(path, error)) return config;
  read_modules(path, config);
  read_score_function(path, config);
  read_prompts(path, config);
  const std::string sizes = (fs::path(path) / "sentence_bert_config.json").string();
  std::optional<std::int64_t> length;
  if (fs::exists(sizes, error)) {
    const Json json = read_json_file(sizes);
    ConfigReader c(json, sizes);
    length = c.optional_size("max_seq_length");
    config.lowercase = c.flag_or("do_lower_case", false);
  }
  if (!length) length = model_max_length(read_tokenizer_folder(path));
  config.max_tokens = std::min(context, length.value_or(context));
  return config;
}

std::vector<std::int32_t> truncated(std::vector<std::int32_t> ids, const SentenceConfig& config) {
  if (config.max_tokens == 0 || std::ssize(ids) <= config.max_tokens) return ids;
  const std::int64_t suffix = std::min(config.n_suffix, config.max_tokens);
  ids.erase(ids.begin() + (config.max_tokens - suffix), ids.end() - suffix);
  return ids;
}

}  // namespace vitrine
