#include "checkpoint/hugging_face/step_table.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/hugging_face/dense_weights.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

/// A name of a value of sentence-transformers.
TextValue value_named(const std::string& name, const std::string& key, const std::string& where) {
  if (name == "token_embeddings") return TextValue::tokens;
  if (name == "sentence_embedding") return TextValue::vector;
  if (name == "scores") return TextValue::scores;
  throw Unsupported(where, "{} \"{}\" is not supported (token_embeddings, sentence_embedding and scores are)", key,
                    name);
}

/// module_input_name and module_output_name, which is the former if it is absent.
std::pair<TextValue, TextValue> read_values(ConfigReader& c) {
  const std::string from = c.text_or("module_input_name", "sentence_embedding");
  const std::string to = c.text_or("module_output_name", from);
  return {value_named(from, "module_input_name", c.where()), value_named(to, "module_output_name", c.where())};
}

PoolStep::Mode pool_mode_named(const std::string& name, const std::string& where) {
  constexpr auto kNames = words(PoolStep::Mode());
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at != kNames.end()) return static_cast<PoolStep::Mode>(at - kNames.begin());
  throw Unsupported(where, "pooling_mode \"{}\" is not supported", name);
}

/// Until version 5 each mode is a key of its own, and the order of several is fixed; none means the mean.
std::vector<PoolStep::Mode> modes_of_flags(ConfigReader& c) {
  constexpr std::pair<std::string_view, PoolStep::Mode> kFlags[] = {
      {"pooling_mode_cls_token", PoolStep::Mode::cls},
      {"pooling_mode_max_tokens", PoolStep::Mode::max},
      {"pooling_mode_mean_tokens", PoolStep::Mode::mean},
      {"pooling_mode_mean_sqrt_len_tokens", PoolStep::Mode::mean_sqrt_len},
      {"pooling_mode_weightedmean_tokens", PoolStep::Mode::weighted_mean},
      {"pooling_mode_lasttoken", PoolStep::Mode::last}};
  std::vector<PoolStep::Mode> modes;
  for (const auto& [key, mode] : kFlags) {
    if (c.flag_or(key, false)) modes.push_back(mode);
  }
  if (modes.empty()) modes.push_back(PoolStep::Mode::mean);
  return modes;
}

TextStep read_pooling(const ModuleFolder& module) {
  ConfigReader c = module.reader();
  refuse_unknown(
      c, {"embedding_dimension", "word_embedding_dimension", "pooling_mode", "include_prompt", "pooling_mode_cls_token",
          "pooling_mode_max_tokens", "pooling_mode_mean_tokens", "pooling_mode_mean_sqrt_len_tokens",
          "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"});
  c.size(c.contains("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension");  // must be there
  PoolStep step{.modes = modes_of_flags(c), .includes_prompt = c.flag_or("include_prompt", true)};
  if (c.has("pooling_mode")) {
    step.modes.clear();
    for (const std::string& name : c.texts_or_one("pooling_mode")) {
      step.modes.push_back(pool_mode_named(name, c.where()));
    }
    if (step.modes.empty()) throw BadCheckpoint(c.where(), "pooling_mode: expected at least one mode");
  }
  return step;
}

/// The activation function of a Dense, by its class in torch.
void read_activation(ConfigReader& c, DenseStep& step) {
  const std::string path = c.text_or("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = path.substr(path.rfind('.') + 1);
  const bool is_identity = name == "Identity";
  const bool is_torch = path == "torch.nn." + name || path == "torch.nn.modules." + name ||
                        path == (is_identity ? "torch.nn.modules.linear." : "torch.nn.modules.activation.") + name;
  constexpr std::pair<std::string_view, std::optional<Activation>> kKnown[] = {
      {"Tanh", Activation::tanh}, {"ReLU", Activation::relu}, {"GELU", Activation::gelu_erf},
      {"SiLU", Activation::silu}, {"Identity", std::nullopt}, {"Sigmoid", std::nullopt}};
  for (const auto& [known, activation] : kKnown) {
    if (!is_torch || name != known) continue;
    step.activation = activation;
    step.is_sigmoid = name == "Sigmoid";
    return;
  }
  throw Unsupported(c.where(),
                    "activation_function {} is not supported (torch.nn's Identity, Tanh, ReLU, GELU, SiLU and Sigmoid "
                    "are)",
                    path);
}

TextStep read_dense(const ModuleFolder& module, TextSteps& steps) {
  ConfigReader c = module.reader();
  refuse_unknown(c, {"in_features", "out_features", "bias", "activation_function", "module_input_name",
                     "module_output_name", "use_residual"});
  DenseStep step;
  std::tie(step.from, step.to) = read_values(c);
  read_activation(c, step);
  const std::int64_t in = c.size("in_features"), out = c.size("out_features");
  const bool has_residual = c.flag_or("use_residual", false);
  if (has_residual) step.residual = in == out ? DenseStep::Residual::input : DenseStep::Residual::map;
  DenseWeights weights(module.folder, module.name, steps.storage);
  step.map.weight = weights.matrix("linear.weight", out, in);
  if (c.flag_or("bias", true)) step.map.bias = weights.vector("linear.bias", out);
  if (step.residual == DenseStep::Residual::map) step.residual_map.weight = weights.matrix("residual.weight", out, in);
  weights.finish();
  return step;
}

TextStep read_layer_norm(const ModuleFolder& module, TextSteps& steps) {
  ConfigReader c = module.reader();
  refuse_unknown(c, {"dimension"});
  const std::int64_t d = c.size("dimension");
  DenseWeights weights(module.folder, module.name, steps.storage);
  LayerNormStep step;
  step.norm.weight = weights.vector("norm.weight", d);
  step.norm.bias = weights.vector("norm.bias", d);
  weights.finish();
  return step;
}

TextStep read_normalize(const ModuleFolder& module) {
  ConfigReader c = module.reader();
  const auto [from, to] = read_values(c);
  return NormalizeStep{from, to};
}

TextStep read_splade(const ModuleFolder& module) {
  ConfigReader c = module.reader();
  refuse_unknown(c, {"pooling_strategy", "activation_function", "embedding_dimension", "word_embedding_dimension"});
  return SpladeStep{.sums = choice_of(c, "pooling_strategy", "max", {"max", "sum"}) == 1,
                    .twice = choice_of(c, "activation_function", "relu", {"relu", "log1p_relu"}) == 1};
}

TextStep read_mask(const ModuleFolder& module) {
  ConfigReader c = module.reader();
  refuse_unknown(c, {"skiplist_words", "skiplist_tasks", "keep_only_token_ids"});
  MaskStep step;
  const std::vector<std::string> words = c.texts_or_empty("skiplist_words");
  if (!words.empty() && module.tokenizer == nullptr) {
    throw BadInput(module.where, "skiplist_words need a tokenizer: give --tokenizer");
  }
  const std::set<std::string> skipped(words.begin(), words.end());
  for (std::int32_t id = 0; !skipped.empty() && id < module.tokenizer->vocab_size(); ++id) {
    if (skipped.contains(module.tokenizer->piece(id))) step.skipped.push_back(id);  // other words have no effect
  }
  if (c.has("skiplist_tasks")) {
    step.skips_in_documents = false;
    for (const std::string& task : c.texts_or_one("skiplist_tasks")) {
      if (task == "query") step.skips_in_queries = true;
      if (task == "document") step.skips_in_documents = true;
      if (task != "query" && task != "document") {
        throw Unsupported(module.where, "skiplist_tasks \"{}\" is not supported (query and document are)", task);
      }
    }
  }
  for (const std::int64_t id : c.sizes_or_empty("keep_only_token_ids")) {
    step.kept.push_back(static_cast<std::int32_t>(std::min(id, kMaxSize)));
  }
  std::sort(step.kept.begin(), step.kept.end());
  return step;
}

TextStep read_logit_score(const ModuleFolder& module) {
  ConfigReader c = module.reader();
  refuse_unknown(c, {"true_token_id", "false_token_id", "module_input_name"});
  if (c.text_or("module_input_name", "causal_logits") != "causal_logits") {
    throw Unsupported(module.where, "module_input_name: expected causal_logits");
  }
  const auto id = [&](std::string_view key) {
    const Json& value = module.config.at(std::string(key));
    if (value.is_number_integer() && value >= 0 && value <= kMaxSize) return value.get<std::int32_t>();
    throw BadCheckpoint(module.where, "{}: expected the id of a token", key);
  };
  if (!c.has("true_token_id")) throw BadCheckpoint(module.where, "true_token_id is missing");
  LogitStep step{.yes = id("true_token_id")};
  if (c.has("false_token_id")) step.no = id("false_token_id");
  return step;
}

/// A kind of module after the first, by the name of its class.
struct StepRow {
  std::string_view name;
  ReadStep read;
};
constexpr StepRow kSteps[] = {
    {"Pooling", [](const ModuleFolder& m, TextSteps&) { return read_pooling(m); }},
    {"Dense", read_dense},
    {"LayerNorm", read_layer_norm},
    {"Normalize", [](const ModuleFolder& m, TextSteps&) { return read_normalize(m); }},
    {"SpladePooling", [](const ModuleFolder& m, TextSteps&) { return read_splade(m); }},
    {"MultiVectorMask", [](const ModuleFolder& m, TextSteps&) { return read_mask(m); }},
    {"LogitScore", [](const ModuleFolder& m, TextSteps&) { return read_logit_score(m); }},
};

}  // namespace

std::size_t choice_of(ConfigReader& c, std::string_view key, std::string_view otherwise,
                      std::initializer_list<std::string_view> names) {
  const std::string name = c.text_or(key, otherwise);
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  throw Unsupported(c.where(), "{} \"{}\" is not supported", key, name);
}

void refuse_unknown(const ConfigReader& c, std::initializer_list<std::string_view> known) {
  for (const std::string& key : c.keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw Unsupported(c.where(), "unknown key {}: it may change what the module computes", key);
  }
}

ReadStep step_reader(std::string_view name) {
  const auto* const row =
      std::find_if(std::begin(kSteps), std::end(kSteps), [&](const StepRow& step) { return step.name == name; });
  return row == std::end(kSteps) ? nullptr : row->read;
}

}  // namespace vitrine
