#include "checkpoint/gguf/heads.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/read/gguf_vocab.h"

namespace vitrine {
namespace {

using Pool = TaskHead::Pool;

/// What llama.cpp makes of cls.* in an architecture.
struct LabelRule {
  std::string_view architecture;
  std::optional<Activation> dense{};  ///< After the dense layer; absent: there is none.
  bool has_norm = false;
  Pool usual = Pool::first;
  bool takes_softmax = false;
};

constexpr LabelRule kLabelRules[] = {
    {"bert", Activation::tanh},
    {"modern-bert", Activation::gelu_erf, true, Pool::mean},
    {.architecture = "qwen3", .usual = Pool::last, .takes_softmax = true},
};

const LabelRule* rule_of(const GgufArchitecture& architecture) {
  for (const LabelRule& rule : kLabelRules) {
    if (rule.architecture == architecture.name) return &rule;
  }
  return nullptr;
}

std::string full(std::string_view architecture, std::string_view key) {
  return std::string(architecture) + "." + std::string(key);
}

constexpr std::pair<TaskHead::Problem, std::string_view> kProblems[] = {
    {TaskHead::Problem::one_label, "single_label_classification"},
    {TaskHead::Problem::several_labels, "multi_label_classification"},
    {TaskHead::Problem::regression, "regression"}};

std::optional<TaskHead::Problem> read_problem(const GgufMetadata& metadata) {
  const auto name = metadata.string(kProblemType);
  if (!name) return {};
  for (const auto& [problem, known] : kProblems) {
    if (*name == known) return problem;
  }
  throw BadCheckpoint(metadata.path(), "{}: expected a problem_type of transformers, got \"{}\"", kProblemType, *name);
}

std::vector<std::string> read_labels(const GgufMetadata& metadata, const std::string& key, std::int64_t n_rows) {
  std::vector<std::string> labels;
  const auto names = metadata.strings(key);
  if (names) labels.assign(names->begin(), names->end());
  if (!names) labels = {"LABEL_0"};  // llama.cpp expects one label
  if (std::ssize(labels) == n_rows) return labels;
  throw BadCheckpoint(metadata.path(), "{}: expected {} labels (the rows of cls.output.weight), got {}", key, n_rows,
                      labels.size());
}

}  // namespace

std::optional<GgufPooling> gguf_pooling(const GgufMetadata& metadata, std::string_view architecture, const char* key) {
  const auto number = metadata.integer(full(architecture, key));
  if (!number) return std::nullopt;
  if (*number >= 0 && *number <= 4) return static_cast<GgufPooling>(*number);
  throw BadCheckpoint(metadata.path(), "{}: expected 0 to 4 (none, mean, cls, last, rank), got {}",
                      full(architecture, key), *number);
}

std::optional<TaskHead> read_gguf_head(const GgufArchitecture& architecture, const GgufMetadata& metadata,
                                       const StoredTensors& tensors, const ModelConfig& model) {
  const auto has = [&](const char* name) { return tensors.all.contains(name); };
  const std::string pooling_key = full(architecture.name, kPoolingType);
  const auto pooling = gguf_pooling(metadata, architecture.name);
  const auto out = tensors.all.find("cls.output.weight");
  if (out == tensors.all.end()) {
    if (pooling == GgufPooling::rank || has("cls.weight")) {
      throw Unsupported(metadata.path(), "a head for labels without cls.output.weight is not supported");
    }
    return std::nullopt;
  }
  const LabelRule* const rule = rule_of(architecture);
  if (rule == nullptr) {
    throw Unsupported(metadata.path(), "cls.output.weight: the architecture {} has no head for labels",
                      architecture.name);
  }
  if (pooling && *pooling != GgufPooling::rank) {
    throw Unsupported(metadata.path(), "{}: expected 4 (rank) in a file with cls.output.weight, got {}", pooling_key,
                      static_cast<int>(*pooling));
  }
  TaskHead head;
  head.pool = rule->usual;
  const auto own = gguf_pooling(metadata, architecture.name, kClassifierPooling);
  if (own && *own != GgufPooling::mean && *own != GgufPooling::cls) {
    throw Unsupported(metadata.path(), "{}: expected 1 (mean) or 2 (cls), got {}",
                      full(architecture.name, kClassifierPooling), static_cast<int>(*own));
  }
  if (own) head.pool = *own == GgufPooling::mean ? Pool::mean : is_bidirectional(model) ? Pool::first : Pool::last;
  if (has("cls.weight")) {
    if (!rule->dense) throw Unsupported(metadata.path(), "cls.weight: {} has no such layer", architecture.name);
    head.dense = model.d_model;
    head.dense_bias = has("cls.bias");
    head.activation = rule->dense;
    if (rule->has_norm && has("cls.norm.weight")) head.norm = model.final_norm;
  }
  head.out_bias = has("cls.output.bias");
  head.labels = read_labels(metadata, full(architecture.name, kClassifierLabels), out->second.shape.front());
  head.problem = read_problem(metadata);
  return head;
}

std::vector<TensorRule> gguf_head_tensors() {
  return {{"cls", {"head.dense"}}, {"cls.norm", {"head.ln"}}, {"cls.output", {"head.out"}}};
}

GgufKeys gguf_head_keys(const GgufArchitecture& architecture, const ModelConfig& config, std::string_view where) {
  GgufKeys keys;
  if (!config.task) return keys;
  const auto refuse = [&](std::string_view what) {
    throw Unsupported(where, "GGUF's architecture \"{}\" has no place for {}", architecture.name, what);
  };
  const TaskHead& head = *config.task;
  const LabelRule* const rule = rule_of(architecture);
  if (head.task != TaskHead::Task::classify) refuse("a head for tokens, answers or choices");
  if (rule == nullptr) return refuse("labels of texts"), keys;
  const bool has_dense = head.dense.has_value();
  if (has_dense && (head.dense != config.d_model || head.activation != rule->dense)) {
    refuse("this dense layer before the labels, or its activation");
  }
  if (head.norm && !rule->has_norm) refuse("a norm before the labels");
  const bool reads_mean = head.pool == Pool::mean;
  if (head.pool != (rule->takes_softmax ? Pool::last : Pool::first) && !(rule->has_norm && reads_mean)) {
    refuse("labels of this row of a text");
  }
  const bool is_one = !head.problem || *head.problem == TaskHead::Problem::one_label;
  if (rule->takes_softmax && (head.n_labels() < 2 || !is_one)) {
    refuse("these labels: llama.cpp takes their softmax");
  }
  keys.add(full(architecture.name, kPoolingType), static_cast<std::uint32_t>(GgufPooling::rank));
  if (rule->has_norm) {
    const GgufPooling pooling = reads_mean ? GgufPooling::mean : GgufPooling::cls;
    keys.add(full(architecture.name, kClassifierPooling), static_cast<std::uint32_t>(pooling));
  }
  keys.add(full(architecture.name, kClassifierLabels), head.labels);
  for (const auto& [problem, name] : kProblems) {
    if (head.problem == problem) keys.add(kProblemType, name);
  }
  return keys;
}

GgufKeys gguf_encoder_keys(const GgufArchitecture& architecture, const ModelConfig& config) {
  GgufKeys keys;
  if (architecture.adapt != nullptr) {
    const auto n_types = std::max<std::int64_t>(1, config.embedding.n_types);  // llama.cpp expects at least one
    keys.add(kGgufTypeCount, static_cast<std::uint32_t>(n_types));
  }
  const auto* const ffn = find<DenseConfig>(config.blocks.front());
  if (!architecture.activation.empty() && ffn != nullptr) {
    keys.add(full(architecture.name, architecture.activation),
             words(Activation{})[static_cast<std::size_t>(ffn->activation)]);
  }
  return keys;
}

std::vector<std::string> encoder_notes(const GgufArchitecture& architecture, const ModelConfig& config) {
  std::vector<std::string> notes;
  if (!architecture.is_encoder) return notes;
  if (config.has_head && config.head.transform)
    notes.emplace_back("the file has no head for masked words: GGUF has no place for it");
  if (config.pooler) notes.emplace_back("the file has no pooler: GGUF has no place for it");
  if (config.task && config.embedding.n_types > 1) {
    notes.emplace_back("llama.cpp gives all tokens the type 0, so its scores of pairs differ from this model's");
  }
  return notes;
}

}  // namespace vitrine
