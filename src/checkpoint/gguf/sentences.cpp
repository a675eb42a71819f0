#include "checkpoint/gguf/sentences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf/heads.h"
#include "tokenizer/read/gguf_vocab.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char *kNormalize = "vitrine.normalize", *kMaxTokens = "vitrine.max_tokens",
                     *kDimensions = "vitrine.dimensions", *kLowercase = "vitrine.lowercase",
                     *kSimilarity = "vitrine.similarity", *kPromptNames = "vitrine.prompt_names",
                     *kPrompts = "vitrine.prompts", *kPrompt = "vitrine.prompt", *kScore = "vitrine.score_function",
                     *kRerankTemplate = "tokenizer.chat_template.rerank";

constexpr std::string_view kSimilarities[] = {"cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"};
constexpr std::string_view kScores[] = {"none", "sigmoid", "softmax"};
constexpr std::string_view kDense[] = {"dense_2", "dense_3"};

using Mode = PoolStep::Mode;

/// The number of a name in a list.
template <class Value, std::size_t n>
void read_name(const GgufMetadata& metadata, const char* key, const std::string_view (&names)[n], Value& value) {
  const auto name = metadata.string(key);
  if (!name) return;
  const auto at = std::find(std::begin(names), std::end(names), *name);
  if (at == std::end(names)) throw BadCheckpoint(metadata.path(), "{}: got \"{}\", an unknown name", key, *name);
  value = static_cast<typename Value::value_type>(at - std::begin(names));
}

std::optional<std::int64_t> count_at(const GgufMetadata& metadata, const char* key) {
  const auto count = metadata.integer(key);
  if (count && *count < 1) {
    throw BadCheckpoint(metadata.path(), "{}: expected a number from 1 on, got {}", key, *count);
  }
  return count;
}

void refuse(const std::string& path, std::string_view what) {
  throw Unsupported(path, "GGUF has no place for {}", what);
}

GgufPooling pooling_of(const PoolStep& step, const std::string& path) {
  constexpr std::pair<Mode, GgufPooling> kKnown[] = {
      {Mode::mean, GgufPooling::mean}, {Mode::cls, GgufPooling::cls}, {Mode::last, GgufPooling::last}};
  if (step.modes.size() > 1) refuse(path, "several modes of Pooling");
  if (!step.includes_prompt) refuse(path, "Pooling without the rows of prompts (include_prompt)");
  for (const auto& [mode, pooling] : kKnown) {
    if (step.modes.front() == mode) return pooling;
  }
  throw Unsupported(path, "GGUF has no place for the pooling \"{}\" (mean, cls and lasttoken have one)",
                    words(Mode())[static_cast<std::size_t>(step.modes.front())]);
}

/// The file's name for a kind of step that it cannot have.
std::string_view name_of(const TextStep& step) {
  constexpr std::string_view kNames[] = {"Pooling",       "Dense",           "LayerNorm", "Normalize",
                                         "SpladePooling", "MultiVectorMask", "LogitScore"};
  return kNames[step.index()];
}

/// The steps of a model that makes vectors, taken apart.
struct Parts {
  GgufPooling pooling = GgufPooling::none;
  std::vector<const Param*> dense{};
  bool normalizes = false;
};

/// Throws Unsupported for steps that a file of the architecture cannot have.
Parts parts_of(const TextSteps& steps, const GgufArchitecture& architecture, const ModelConfig& model,
               const std::string& path) {
  Parts parts;
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const TextStep& step = steps.steps[i];
    const auto* const pool = std::get_if<PoolStep>(&step);
    const auto* const dense = std::get_if<DenseStep>(&step);
    const auto* const normalize = std::get_if<NormalizeStep>(&step);
    if (pool != nullptr && i == 0) {
      parts.pooling = pooling_of(*pool, path);
    } else if (normalize != nullptr && normalize->to == steps.result && i + 1 == steps.steps.size()) {
      parts.normalizes = true;
    } else if (dense != nullptr && architecture.has_dense && dense->from == TextValue::vector &&
               dense->to == TextValue::vector) {
      const bool is_plain = !dense->activation && !dense->is_sigmoid && !dense->map.bias.present() &&
                            dense->residual == DenseStep::Residual::none;
      if (!is_plain) refuse(path, "the activation, the bias or the residual of a Dense");
      parts.dense.push_back(&dense->map.weight);
    } else {
      throw Unsupported(path, "GGUF's architecture \"{}\" has no place for the module {} number {}", architecture.name,
                        name_of(step), i + 2);
    }
  }
  if (parts.dense.size() > std::size(kDense)) refuse(path, "more than two modules Dense");
  if (!parts.dense.empty() && (parts.pooling == GgufPooling::none || parts.dense.front()->view.cols != model.d_model ||
                               parts.dense.back()->view.rows != model.d_model)) {
    refuse(path, "Dense modules that do not end in the model's width");
  }
  return parts;
}

void read_prompts(const GgufMetadata& metadata, SentenceConfig& config) {
  const auto names = metadata.strings(kPromptNames), texts = metadata.strings(kPrompts);
  if (names.has_value() != texts.has_value() || (names && names->size() != texts->size())) {
    throw BadCheckpoint(metadata.path(), "expected as many {} as {}", kPromptNames, kPrompts);
  }
  if (config.has_modules) config.prompts = {{"query", ""}, {"document", ""}};
  for (std::size_t i = 0; names && i < names->size(); ++i) config.prompts[std::string((*names)[i])] = (*texts)[i];
  config.prompt = metadata.string(kPrompt).value_or("");
}

void add_prompts(const SentenceConfig& config, GgufKeys& keys) {
  std::vector<std::string> names, texts;
  for (const auto& [name, text] : config.prompts) {
    if (text.empty() && (name == "query" || name == "document")) continue;
    names.push_back(name);
    texts.push_back(text);
  }
  if (!names.empty()) {
    keys.add(kPromptNames, names);
    keys.add(kPrompts, texts);
  }
  if (!config.prompt.empty()) keys.add(kPrompt, config.prompt);
}

/// The matrices of Dense in a file.
void read_dense(const GgufModelFile& file, SentenceConfig& config) {
  for (const std::string_view name : kDense) {
    const auto found = file.tensors.all.find(std::string(name) + ".weight");
    if (found == file.tensors.all.end()) continue;
    const std::vector<std::int64_t>& shape = found->second.shape;
    if (!found->second.type) {
      throw Unsupported(found->second.file, "{}: type {} is not supported", found->first, found->second.dtype);
    }
    DenseStep step;
    step.activation.reset();
    step.map.weight.name = found->first;
    step.map.weight.shape = {shape[0], shape[1]};
    step.map.weight.view = {found->second.bytes.data(), *found->second.type, shape[0], shape[1], shape[1]};
    config.steps.steps.emplace_back(std::move(step));
  }
  config.steps.storage = file.tensors.storage;
}

}  // namespace

bool is_gguf_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  char start[4] = {};
  std::ifstream(path, std::ios::binary).read(start, sizeof start);
  return std::string_view(start, sizeof start) == "GGUF";
}

void take_dense(const GgufArchitecture& architecture, const GgufMetadata& metadata, StoredTensors& tensors) {
  for (const std::string_view name : architecture.has_dense ? std::span(kDense) : std::span<const std::string_view>()) {
    const auto found = tensors.all.find(std::string(name) + ".weight");
    const std::string key = fmt::format("{}.{}_feat_", architecture.name, name);
    const auto in = metadata.integer(key + "in"), out = metadata.integer(key + "out");
    if (found == tensors.all.end()) {
      if (in || out) throw BadCheckpoint(metadata.path(), "expected {}.weight, as {}in says, got none", name, key);
      continue;
    }
    if (in && out && found->second.shape == std::vector{*out, *in}) {
      tensors.all.erase(found);
      continue;
    }
    throw BadCheckpoint(metadata.path(), "{}.weight: expected [{}, {}], as {}out and {}in say, got [{}]", name,
                        out.value_or(0), in.value_or(0), key, key, fmt::join(found->second.shape, ", "));
  }
}

void read_gguf_sentences(const std::string& path, SentenceConfig& config) {
  const GgufModelFile file = open_gguf(MappedFile::open(path));
  const GgufMetadata& metadata = file.metadata;
  const auto pooling = gguf_pooling(metadata, metadata.string("general.architecture").value_or(""));
  if (pooling && *pooling != GgufPooling::rank) {
    constexpr Mode kModes[] = {Mode::mean, Mode::mean, Mode::cls, Mode::last};
    const bool has_vector = *pooling != GgufPooling::none;
    config.has_modules = true;
    config.steps = {};
    config.steps.result = has_vector ? TextValue::vector : TextValue::tokens;
    if (has_vector) config.steps.steps = {PoolStep{{kModes[static_cast<std::size_t>(*pooling)]}}};
    if (has_vector) read_dense(file, config);
    if (metadata.boolean(kNormalize).value_or(has_vector)) {
      config.steps.steps.emplace_back(NormalizeStep{config.steps.result, config.steps.result});
    }
    config.similarity = has_vector ? Similarity::cosine : Similarity::max_sim;
  }
  config.reading.lowercase = metadata.boolean(kLowercase).value_or(false);
  if (const auto most = count_at(metadata, kMaxTokens)) config.max_tokens = std::min(config.max_tokens, *most);
  config.dimensions = count_at(metadata, kDimensions);
  std::optional<Similarity> similarity;
  read_name(metadata, kSimilarity, kSimilarities, similarity);
  if (similarity && (*similarity >= Similarity::max_sim) != (config.result() == TextValue::tokens)) {
    throw BadCheckpoint(path, "{} {} does not fit the file's pooling", kSimilarity,
                        kSimilarities[static_cast<std::size_t>(*similarity)]);
  }
  config.similarity = similarity.value_or(config.similarity);
  read_name(metadata, kScore, kScores, config.score);
  read_prompts(metadata, config);
  config.pair_template = metadata.string(kRerankTemplate).value_or("");
}

std::vector<std::int32_t> templated_pair(const Tokenizer& tokenizer, const SentenceConfig& config,
                                         const std::string& query, const std::string& document, std::int64_t most) {
  const std::pair<std::string_view, const std::string&> kPlaces[] = {{"{query}", query}, {"{document}", document}};
  std::string text;
  std::vector<std::pair<std::int64_t, std::int64_t>> own;  // of the template
  std::string_view rest = config.pair_template;
  while (!rest.empty()) {
    std::size_t at = rest.size(), size = 0;
    const std::string* value = nullptr;
    for (const auto& [place, with] : kPlaces) {
      const std::size_t found = rest.find(place);
      if (found >= at) continue;
      at = found, size = place.size(), value = &with;
    }
    own.emplace_back(std::ssize(text), std::ssize(text) + static_cast<std::int64_t>(at));
    text += rest.substr(0, at);
    if (value != nullptr) text += *value;
    rest.remove_prefix(at + size);
  }
  std::vector<std::int32_t> ids = tokenizer.encode_trusted(text, own);
  if (std::ssize(ids) <= most) return ids;
  throw BadInput("rerank", "expected at most {} tokens of a query and a document in the model's template, got {}", most,
                 ids.size());
}

GgufSentences gguf_sentences(const std::string& path, const Checkpoint& checkpoint) {
  using Source = TextSteps::Source;
  GgufSentences file;
  GgufKeys& keys = file.keys;
  const ModelConfig& model = checkpoint.model->config();
  const SentenceConfig config = read_sentence_config(path, nullptr, model.max_seq_len);
  const ReadingModule& reading = config.reading;
  file.steps = config.steps;
  const Source source = config.has_modules ? config.steps.source : Source::rows;
  if (source == Source::word_logits) refuse(path, "the module SpladePooling");
  if (source == Source::next_logits) refuse(path, "the module LogitScore");
  if (reading.is_chat) refuse(path, "pairs in a chat template");
  if (reading.expansion || reading.most_query_tokens || reading.most_document_tokens) {
    refuse(path, "lengths of queries and documents, or the expansion of queries");
  }
  if (source == Source::outputs && !config.steps.steps.empty()) refuse(path, "modules after a head for labels");
  if (model.task) {
    if (config.score) keys.add(kScore, kScores[static_cast<std::size_t>(*config.score)]);
  } else if (config.has_modules) {
    const GgufArchitecture& architecture = gguf_architecture_of(checkpoint, path);
    const Parts parts = parts_of(file.steps, architecture, model, path);
    const std::string prefix = std::string(architecture.name) + ".";
    keys.add(prefix + kPoolingType, static_cast<std::uint32_t>(parts.pooling));
    for (std::size_t i = 0; i < parts.dense.size(); ++i) {
      const MatrixView& view = parts.dense[i]->view;
      keys.add(prefix + std::string(kDense[i]) + "_feat_in", static_cast<std::uint32_t>(view.cols));
      keys.add(prefix + std::string(kDense[i]) + "_feat_out", static_cast<std::uint32_t>(view.rows));
    }
    file.dense = parts.dense;
    const bool has_vector = parts.pooling != GgufPooling::none;
    if (parts.normalizes != has_vector) keys.add(kNormalize, parts.normalizes);
    if (config.similarity != (has_vector ? Similarity::cosine : Similarity::max_sim)) {
      keys.add(kSimilarity, kSimilarities[static_cast<std::size_t>(config.similarity)]);
    }
  }
  if (reading.lowercase) {
    keys.add(kLowercase, true);
    file.notes.emplace_back("llama.cpp does not lowercase texts, as this model's folder does");
  }
  if (config.dimensions) {
    keys.add(kDimensions, static_cast<std::uint32_t>(*config.dimensions));
    file.notes.push_back(fmt::format("llama.cpp does not cut vectors to {} elements", *config.dimensions));
  }
  const bool reads_texts = config.has_modules || model.task || is_bidirectional(model);
  if (reads_texts && config.max_tokens < model.max_seq_len) {
    keys.add(kMaxTokens, static_cast<std::uint32_t>(config.max_tokens));
  }
  add_prompts(config, keys);
  if (!config.prompt.empty())
    file.notes.emplace_back("llama.cpp puts no prompt before texts, as this model's folder does");
  return file;
}

}  // namespace vitrine
