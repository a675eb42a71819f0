#include "checkpoint/hugging_face/config_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace vitrine {
namespace {

/// Keys of transformers' PretrainedConfig and of well-known tools that have no effect on the forward.
constexpr auto kGenericKeys = std::to_array<std::string_view>({
    // what the file is and who wrote it
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_experts_implementation",
    "_experts_implementation_internal",
    "_flash_attn_2_enabled",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "auto_map",
    "custom_pipelines",
    "dtype",
    "finetuning_task",
    "model_max_length",
    "model_type",
    "name_or_path",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    // special tokens: read by the generator, not by the forward
    "bos_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "mask_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "pad_token_id",
    "prefix",
    "sep_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    // what a Python call returns, and how it is executed
    "chunk_size_feed_forward",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "return_dict",
    "return_dict_in_generate",
    "tf_legacy_loss",
    "torchscript",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "pretraining_tp",
    "xla_device",
    // of encoder-decoders; no effect on a decoder alone
    "cross_attention_hidden_size",
    "is_decoder",
    "tie_encoder_decoder",
    // defaults of generation in old files
    "bad_words_ids",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "remove_invalid_values",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    // layers that predict further tokens, whose tensors are left out
    "num_nextn_predict_layers",
    // training
    "attention_dropout",
    "initializer_range",
    "initializer_factor",
    "gradient_checkpointing",
    "neftune_noise_alpha",
    // classification heads
    "_num_labels",
    "classifier_dropout",
    "id2label",
    "label2id",
    "problem_type",
    "num_labels",
});

/// Whether a key that no reader knows says that something is absent: off, empty, or a factor of 1.
bool is_neutral(std::string_view key, const Json& value) {
  const auto has = [&](std::string_view word) { return key.find(word) != key.npos; };
  if (value.is_null()) return true;
  if (key.starts_with("no_") || has("disable") || has("without")) return false;  // off means on
  if (value.is_boolean()) return value == false;
  const bool is_factor =
      has("multiplier") || key.ends_with("_scale") || key.ends_with("_scaling") || key.ends_with("_factor");
  if (value.is_number()) return value == 0 || (value == 1 && is_factor);
  return value == Json::array() || value == "";
}

std::string short_text(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string where, std::vector<std::string> allowed)
    : object_(&object), own_(&object), where_(std::move(where)), allowed_(std::move(allowed)) {
  if (!object.is_object()) throw BadCheckpoint(where_, "expected a JSON object");
}

const Json* ConfigReader::find(std::string_view key) {
  used_.emplace(key);
  const auto it = object_->find(std::string(key));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::wrong_type(std::string_view key, std::string_view expected, const Json& value) const {
  throw BadCheckpoint(where_, "{}: expected {}, got {}", key, expected, short_text(value));
}

bool ConfigReader::contains(std::string_view key) const { return object_->contains(std::string(key)); }

bool ConfigReader::has(std::string_view key) const {
  const auto it = object_->find(std::string(key));
  return it != object_->end() && !it->is_null();
}

bool ConfigReader::is_text(std::string_view key) const { return has(key) && object_->at(std::string(key)).is_string(); }

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool is_whole = value->is_number() && value->get<double>() == std::floor(value->get<double>());
  const bool fits = is_whole && *value >= 1 && *value <= kMaxSize;  // some libraries write 16.0
  if (!fits) wrong_type(key, "a whole number of at least 1", *value);
  return static_cast<std::int64_t>(value->get<double>());
}

std::int64_t ConfigReader::size_or(std::string_view key, std::int64_t otherwise) {
  return optional_size(key).value_or(otherwise);
}

std::int64_t ConfigReader::size(std::string_view key, std::int64_t most) {
  const auto value = optional_size(key);
  if (!value) throw BadCheckpoint(where_, "key {} is missing", key);
  if (*value > most) throw BadCheckpoint(where_, "{}: expected at most {}, got {}", key, most, *value);
  return *value;
}

std::optional<double> ConfigReader::optional_number(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) wrong_type(key, "a number", *value);
  return value->get<double>();
}

double ConfigReader::number_or(std::string_view key, double otherwise) {
  return optional_number(key).value_or(otherwise);
}

double ConfigReader::positive_or(std::string_view key, double otherwise) {
  const double value = number_or(key, otherwise);
  if (!(value > 0)) throw BadCheckpoint(where_, "{}: expected a number above 0, got {}", key, value);
  return value;
}

double ConfigReader::positive(std::string_view key) {
  if (!has(key)) throw BadCheckpoint(where_, "key {} is missing", key);
  return positive_or(key, 0);
}

bool ConfigReader::flag_or(std::string_view key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong_type(key, "true or false", *value);
  return value->get<bool>();
}

bool ConfigReader::truth_or(std::string_view key, bool otherwise) {
  const Json* value = find(key);
  return value != nullptr && value->is_number() ? *value != 0 : flag_or(key, otherwise);
}

std::string ConfigReader::text_or(std::string_view key, std::string_view otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) wrong_type(key, "a text", *value);
  return value->get<std::string>();
}

std::vector<std::string> ConfigReader::texts_or_empty(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool is_texts =
      value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& v) { return v.is_string(); });
  if (!is_texts) wrong_type(key, "a list of texts", *value);
  return value->get<std::vector<std::string>>();
}

std::map<std::string, std::string> ConfigReader::texts_by_key(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool is_texts =
      value->is_object() && std::all_of(value->begin(), value->end(), [](const Json& v) { return v.is_string(); });
  if (!is_texts) wrong_type(key, "an object of texts", *value);
  return value->get<std::map<std::string, std::string>>();
}

std::vector<std::string> ConfigReader::texts_or_one(std::string_view key) {
  const Json* value = find(key);
  if (value != nullptr && value->is_string()) return {value->get<std::string>()};
  return texts_or_empty(key);
}

std::vector<std::string> ConfigReader::repeated_texts_or_empty(std::string_view key, std::size_t most) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const auto is_pair = [](const Json& v) {
    return v.is_array() && v.size() == 2 && v[0].is_array() && !v[0].empty() && v[1].is_number_integer() &&
           std::all_of(v[0].begin(), v[0].end(), [](const Json& text) { return text.is_string(); });
  };
  std::vector<std::string> all;
  const bool are_pairs = value->is_array() && std::all_of(value->begin(), value->end(), is_pair);
  if (!are_pairs) wrong_type(key, "a list of pairs [texts, times]", *value);
  for (const Json& pair : *value) {
    for (auto n = pair[1].get<std::int64_t>(); n > 0; --n) {
      if (all.size() + pair[0].size() > most) throw BadCheckpoint(where_, "{}: expected at most {} texts", key, most);
      for (const Json& text : pair[0]) all.push_back(text.get<std::string>());
    }
  }
  return all;
}

std::vector<double> ConfigReader::numbers(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) throw BadCheckpoint(where_, "key {} is missing", key);
  const auto is_number = [](const Json& v) { return v.is_number() && std::isfinite(v.get<double>()); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_number)) {
    wrong_type(key, "a list of numbers", *value);
  }
  return value->get<std::vector<double>>();
}

std::int64_t ConfigReader::size_or_auto(std::string_view key, std::int64_t otherwise) {
  const Json* value = find(key);
  return value != nullptr && *value == "auto" ? otherwise : size_or(key, otherwise);
}

std::array<double, 2> ConfigReader::range_or(std::string_view key, std::array<double, 2> otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const Json infinity = {{"__float__", "Infinity"}};
  const auto is_bound = [&](const Json& v) { return v.is_number() || v == infinity; };
  if (!value->is_array() || value->size() != 2 || !std::all_of(value->begin(), value->end(), is_bound)) {
    wrong_type(key, "two numbers", *value);
  }
  const auto number = [](const Json& v) {
    return v.is_number() ? v.get<double>() : std::numeric_limits<double>::infinity();
  };
  return {number((*value)[0]), number((*value)[1])};
}

std::vector<std::int64_t> ConfigReader::sizes_or_empty(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const auto is_size = [](const Json& v) { return v.is_number_integer() && v >= 0 && v <= kMaxSize; };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_size)) {
    wrong_type(key, "a list of whole numbers", *value);
  }
  return value->get<std::vector<std::int64_t>>();
}

std::vector<std::int64_t> ConfigReader::sizes_of_layers(std::string_view key, std::size_t n, std::int64_t otherwise) {
  const Json* const value = find(key);
  if (value == nullptr || !value->is_array()) return std::vector<std::int64_t>(n, size_or(key, otherwise));
  std::vector<std::int64_t> sizes = sizes_or_empty(key);
  if (sizes.size() == n) return sizes;
  throw BadCheckpoint(where_, "{}: expected one number, or one for each of {} layers, got {}", key, n, sizes.size());
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_->items()) names.push_back(key);
  return names;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) wrong_type(key, "an object", *value);
  return ConfigReader(*value, where_ + ", " + std::string(key), allowed_);
}

ConfigReader ConfigReader::inheriting(std::string_view key, std::initializer_list<std::string_view> not_inherited) {
  ConfigReader reader = *object(key);
  const auto merged = std::make_shared<Json>(*object_);
  merged->erase(std::string(key));
  for (const std::string_view other : not_inherited) merged->erase(std::string(other));
  merged->update(*reader.object_);
  reader.merged_ = merged;
  reader.object_ = merged.get();
  return reader;
}

bool ConfigReader::is_allowed(std::string_view key) const {
  return std::find(allowed_.begin(), allowed_.end(), key) != allowed_.end();
}

void ConfigReader::expect(bool holds, std::string_view key, std::string_view expected) {
  const Json* const value = find(key);
  if (holds || is_allowed(key)) return;
  throw Unsupported(where_, "{}: expected {}, got {} (--allow-config-key {} computes as if it were so)", key, expected,
                    value != nullptr ? short_text(*value) : "none", key);
}

void ConfigReader::refuse(std::string_view key) {
  const Json* const value = find(key);
  expect(value == nullptr || *value == false, key, "null or false");
}

void ConfigReader::finish() const {
  const bool is_own = object_->value("model_type", Json()) == "vitrine";  // all of its keys are ours
  for (const auto& [key, value] : own_->items()) {
    const bool known = used_.contains(key) || is_allowed(key) ||
                       std::find(kGenericKeys.begin(), kGenericKeys.end(), key) != kGenericKeys.end();
    if (known || (!is_own && is_neutral(key, value))) continue;
    throw Unsupported(
        where_, "unknown key {}: it may change what the model computes (--allow-config-key {} accepts it)", key, key);
  }
}

}  // namespace vitrine
