#include "checkpoint/hugging_face/sentence_transformers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "checkpoint/gguf/sentences.h"
#include "checkpoint/hugging_face/config_json.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/unicode.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// What kind of model a folder says it is; that decides what the last step must have made.
enum class ModelType : std::uint8_t { vectors, sparse, token_vectors, scores };

ModelType model_type_named(const std::string& name, const std::string& path) {
  constexpr std::string_view kNames[] = {"SentenceTransformer", "SparseEncoder", "MultiVectorEncoder", "CrossEncoder"};
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at != std::end(kNames)) return static_cast<ModelType>(at - std::begin(kNames));
  throw Unsupported(path, "model_type {} is not supported ({} are)", name, fmt::join(kNames, ", "));
}

/// Sets what the steps say of the length of a vector.
void summarize(SentenceConfig& config) {
  const std::vector<TextStep>& steps = config.steps.steps;
  const auto* const normalize = steps.empty() ? nullptr : std::get_if<NormalizeStep>(&steps.back());
  config.normalize = normalize != nullptr && normalize->to == config.steps.result;
}

/// Whether any step makes a value.
bool makes(const TextSteps& steps, TextValue value) {
  const auto makes_it = [&](const TextStep& step) {
    if (const auto* const dense = std::get_if<DenseStep>(&step)) return dense->to == value;
    if (std::holds_alternative<LogitStep>(step)) return value == TextValue::scores;
    return value == TextValue::vector &&
           (std::holds_alternative<PoolStep>(step) || std::holds_alternative<SpladeStep>(step));
  };
  if (value == TextValue::scores && steps.source == TextSteps::Source::outputs) return true;
  if (value == TextValue::tokens) return steps.source == TextSteps::Source::rows;
  return std::any_of(steps.steps.begin(), steps.steps.end(), makes_it);
}

/// The id of the token that expands queries: the one that is named, else the tokenizer's mask, else its end of a text.
std::int32_t expansion_token(const std::string& folder, const QueryExpansion& expansion, const Tokenizer& tokenizer) {
  std::vector<std::string> names = {expansion.token};
  if (expansion.token.empty()) {
    names.clear();
    const TokenizerFolder files = read_tokenizer_folder(folder_of_model(folder));
    for (const char* const key : {"mask_token", "eos_token"}) {
      for (const auto& [name, token] : files.named) {
        if (name == key) names.push_back(token.is_string() ? token.get<std::string>() : token.value("content", ""));
      }
    }
  }
  for (const std::string& name : names) {
    if (const auto id = id_of_token(tokenizer, name)) return *id;
  }
  throw BadCheckpoint(folder, "query_expansion: the vocabulary has no token {}",
                      names.empty() ? "that masks or ends a text" : names.front());
}

/// Reads modules.json, whose last value is what the type of the model is read for.
void read_modules(const std::string& folder, ModelType type, const Tokenizer* tokenizer, SentenceConfig& config) {
  std::optional<TextModules> modules = read_text_modules(folder, tokenizer);
  if (!modules) return (void)(config.reading = read_reading_module(folder));
  const std::string path = (fs::path(folder) / "modules.json").string();
  config.has_modules = true;
  config.steps = std::move(modules->steps);
  config.reading = std::move(modules->reading);
  config.steps.result = type == ModelType::scores          ? TextValue::scores
                        : type == ModelType::token_vectors ? TextValue::tokens
                                                           : TextValue::vector;
  if (!makes(config.steps, config.steps.result)) {
    constexpr std::string_view kWhat[] = {"vectors of tokens", "a vector of a text", "scores"};
    throw BadCheckpoint(path, "expected a module that makes {}, as the model_type says",
                        kWhat[static_cast<std::size_t>(config.steps.result)]);
  }
  if (config.reading.is_chat && type != ModelType::scores) {
    throw Unsupported(path, "modality_config.message: vectors of texts in a chat template are not supported");
  }
  if (config.reading.expansion && tokenizer != nullptr) {
    config.expansion_id = expansion_token(folder, *config.reading.expansion, *tokenizer);
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
  constexpr std::string_view kNames[] = {"cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"};
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at != std::end(kNames)) return static_cast<Similarity>(at - std::begin(kNames));
  throw Unsupported(path, "similarity_fn_name: expected {}, got \"{}\"", fmt::join(kNames, ", "), name);
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

/// config_sentence_transformers.json, if a folder has it.
struct SentenceFile {
  std::string path;
  Json json = Json::object();
};
SentenceFile read_sentence_file(const std::string& folder) {
  const std::string path = (fs::path(folder) / "config_sentence_transformers.json").string();
  std::error_code error;
  return {path, fs::exists(path, error) ? read_json_file(path) : Json::object()};
}

/// The function that texts are compared by: the file's, else that of the type of the model.
void read_similarity(const SentenceFile& file, ModelType type, SentenceConfig& config) {
  const bool has_tokens = type == ModelType::token_vectors;
  config.similarity = has_tokens                  ? Similarity::max_sim
                      : type == ModelType::sparse ? Similarity::dot
                                                  : Similarity::cosine;
  const JsonFields fields(file.json, "the configuration", file.path);
  const Json* const similarity = fields.find("similarity_fn_name");
  if (similarity == nullptr || similarity->is_null()) return;
  const Similarity named = similarity_named(fields.string("similarity_fn_name"), file.path);
  if ((named >= Similarity::max_sim) != has_tokens) {
    throw Unsupported(file.path, "similarity_fn_name {} is not supported for this model_type",
                      fields.string("similarity_fn_name"));
  }
  config.similarity = named;
}

/// What the file says of scores and vectors, and its prompts with the one that is used without a name.
void read_prompts(const SentenceFile& file, ModelType type, SentenceConfig& config) {
  const std::string& path = file.path;
  const JsonFields fields(file.json, "the configuration", path);
  ConfigReader sizes(file.json, path);
  for (const char* const key : {"query_prefix", "document_prefix", "do_query_expansion", "skiplist_words"}) {
    if (sizes.has(key))
      throw Unsupported(path, "{} is not supported: save the folder with sentence-transformers 6", key);
  }
  if (sizes.has("requirements")) throw Unsupported(path, "requirements is not supported");
  if (const std::string name = fields.string("activation_fn", ""); !name.empty()) {
    config.score = score_function_named(name, path);
  }
  read_similarity(file, type, config);
  if (type == ModelType::vectors) config.dimensions = sizes.optional_size("truncate_dim");
  if (type == ModelType::sparse) config.most_words = sizes.optional_size("max_active_dims");
  if (config.has_modules && type != ModelType::scores) config.prompts = {{"query", ""}, {"document", ""}};
  if (const Json* prompts = fields.find("prompts"); prompts != nullptr && !prompts->is_null()) {
    const JsonFields texts(*prompts, "prompts", path);
    for (const auto& [name, text] : prompts->items()) config.prompts[name] = text.is_null() ? "" : texts.string(name);
  }
  const std::string name = fields.string("default_prompt_name", "");
  if (!name.empty()) config.use_prompt(name, path);
}

/// The length to which tokenizer.json truncates texts: the tokenizer alone reads them for a table of embeddings.
std::optional<std::int64_t> truncation_of(const std::string& folder) {
  const std::string path = (fs::path(folder) / "tokenizer.json").string();
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const Json json = read_json_file(path);
  if (!json.is_object() || !json.contains("truncation") || !json["truncation"].is_object()) return std::nullopt;
  ConfigReader c(json["truncation"], path);
  if (c.text_or("direction", "Right") != "Right") throw Unsupported(path, "truncation at the left is not supported");
  return c.optional_size("max_length");
}

/// Whether a tokenizer is of a class that gives models the types of tokens, unless the folder names what it gives.
/// Source: transformers 5.24, model_input_names of the classes.
bool gives_types(const TokenizerFolder& tokenizer) {
  constexpr std::string_view kClasses[] = {"Bert",       "Electra",  "Deberta",     "DebertaV2",
                                           "MobileBert", "ConvBert", "SqueezeBert", "LayoutLM"};
  if (const auto names = tokenizer.config.find("model_input_names"); names != tokenizer.config.end()) {
    if (names->is_array()) return std::find(names->begin(), names->end(), "token_type_ids") != names->end();
  }
  const std::string name = tokenizer.class_name.substr(0, tokenizer.class_name.rfind("Tokenizer"));
  return tokenizer.class_name.empty() ||
         std::find(std::begin(kClasses), std::end(kClasses), name) != std::end(kClasses);
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
  prompt = found->second;
}

void SentenceConfig::use_role(TextRole wanted) {
  role = wanted;
  if (wanted == TextRole::any) return;
  const auto found = prompts.find(wanted == TextRole::query ? "query" : "document");
  if (found != prompts.end()) prompt = found->second;
}

std::string SentenceConfig::prepared(const std::string& text) const { return without_prompt(prompt + text); }

std::string SentenceConfig::without_prompt(const std::string& text) const {
  return reading.lowercase ? vitrine::lowercase(text) : text;
}

std::int64_t SentenceConfig::most_tokens() const {
  std::optional<std::int64_t> own;
  if (role == TextRole::query) own = reading.most_query_tokens;
  if (role == TextRole::document) own = reading.most_document_tokens;
  if (role == TextRole::query && reading.expansion) {
    const QueryExpansion& expansion = *reading.expansion;
    if (expansion.is_fixed) own = expansion.length;
    if (own) own = std::max(*own, expansion.length);
  }
  return own && max_tokens > 0 ? std::min(*own, max_tokens) : own.value_or(max_tokens);
}

SentenceConfig read_sentence_config(const std::string& path, const Tokenizer* tokenizer, std::int64_t context) {
  SentenceConfig config;
  config.max_tokens = context;
  if (tokenizer != nullptr) config.n_suffix = suffix_of(*tokenizer);
  std::error_code error;
  if (is_gguf_file(path)) {
    read_gguf_sentences(path, config);
    if (config.has_modules) summarize(config);
  }
  if (!fs::is_directory(path, error)) return config;
  const std::string folder = folder_of_modules(path);
  const SentenceFile file = read_sentence_file(folder);
  const JsonFields fields(file.json, "the configuration", file.path);
  const ModelType type = model_type_named(fields.string("model_type", "SentenceTransformer"), file.path);
  read_modules(folder, type, tokenizer, config);
  read_score_function(path, config);
  read_prompts(file, type, config);
  summarize(config);
  if (config.reading.is_table) config.n_suffix = 0;
  std::optional<std::int64_t> length = config.reading.most_tokens;
  const TokenizerFolder files = read_tokenizer_folder(path);
  config.gives_types = gives_types(files);
  if (!length) length = config.reading.is_table ? truncation_of(path) : model_max_length(files);
  config.max_tokens = std::min(context, length.value_or(context));
  return config;
}

std::vector<std::int32_t> truncated(std::vector<std::int32_t> ids, const SentenceConfig& config) {
  const std::int64_t most = config.most_tokens();
  if (most == 0 || std::ssize(ids) <= most) return ids;
  const std::int64_t suffix = std::min(config.n_suffix, most);
  ids.erase(ids.begin() + (most - suffix), ids.end() - suffix);
  return ids;
}

TextMarks marked(std::vector<std::int32_t>& ids, const SentenceConfig& config, const Tokenizer* tokenizer) {
  TextMarks marks{.is_query = config.role == TextRole::query};
  if (config.reading.is_table && tokenizer != nullptr && ids.empty()) {
    ids.push_back(0);  // a row that does not count: the mean of no rows is 0
    marks.n_expansion = 1;
  }
  if (tokenizer != nullptr && !config.prompt.empty()) {
    const std::vector<std::int32_t> prompt =
        truncated(tokenizer->encode(config.prepared(""), SpecialTokens::apply), config);
    const bool ends_in_special = !prompt.empty() && !tokenizer->is_text(prompt.back());
    marks.n_prompt = std::ssize(prompt) - (ends_in_special ? 1 : 0);
  }
  if (!marks.is_query || !config.expansion_id) return marks;
  const QueryExpansion& expansion = *config.reading.expansion;
  const std::int64_t most = config.max_tokens > 0 ? std::min(expansion.length, config.max_tokens) : expansion.length;
  marks.n_expansion = std::max<std::int64_t>(0, most - std::ssize(ids));
  marks.attends_expansion = expansion.attends;
  ids.resize(ids.size() + static_cast<std::size_t>(marks.n_expansion), *config.expansion_id);
  return marks;
}

}  // namespace vitrine
