// How a model is opened.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pass/compute.h"
#include "pass/dictionary_use.h"
#include "tensor/kv_type.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// The value of --compute: auto, f32, int8 or bf16; nothing for other names.
constexpr std::optional<Compute> compute_named(std::string_view name) {
  if (name == "auto") return Compute::automatic;
  if (name == "f32") return Compute::f32;
  if (name == "int8") return Compute::int8;
  return name == "bf16" ? std::optional(Compute::bf16) : std::nullopt;
}

/// A low-rank adapter (LoRA, DoRA) that changes what a model computes; the model's weights stay as they are.
struct OpenAdapter {
  std::string path{};  ///< A folder of PEFT, or a GGUF file of llama.cpp.
  double scale = 1;    ///< Multiplies what the adapter adds.
};

/// A control vector, which adds a direction to the residual stream after each block: blocks.N.hook_resid_post.
struct OpenControl {
  std::string path{};                                                 ///< A GGUF file of llama.cpp.
  double scale = 1;                                                   ///< Multiplies the directions.
  int first_layer = 0, last_layer = std::numeric_limits<int>::max();  ///< The blocks whose directions are added.
};

/// Dictionaries of features (sparse autoencoders, transcoders), attached to sites of the model.
struct OpenDictionary {
  std::string path{};  ///< A folder or file of one of the formats of docs/features.md.
  std::string name{};  ///< In the names of its values, SITE.NAME.hook_sae_acts_post; "": SITE.hook_sae_acts_post.
  std::string site{};  ///< Its site; "": the one that its files name.
};

/// [NAME=]PATH[@SITE]. Throws BadInput.
OpenDictionary dictionary_of(const std::string& text);

/// How a checkpoint is opened.
struct OpenOptions {
  std::string tokenizer{};               ///< A tokenizer's file or folder; "": that of the checkpoint.
  TokenizerOptions tokenizer_options{};  ///< For tokenizer files that are not self-describing.
  int threads = 0;                       ///< Number of threads per call; 0: all processors that the process may use.
  KvTypes kv_types{};                    ///< Types to which keys and values are rounded.
  Compute compute = Compute::automatic;  ///< How weights are multiplied.
  std::vector<std::string> allowed_config_keys{};  ///< Unknown keys of config.json to ignore.
  std::vector<std::string> allowed_tensors{};      ///< Unknown tensors to ignore; NAME* stands for all that begin so.
  std::vector<OpenAdapter> adapters{};             ///< Applied in this order, in every call.
  std::vector<OpenControl> controls{};             ///< The same; after each block their sum is added.
  std::vector<OpenDictionary> dictionaries{};      ///< Run in this order.
  DictionaryUse dictionary_use = DictionaryUse::automatic;  ///< What they do to the values of their sites.
  std::string skipped_tokens{};  ///< Where they do nothing: `special`, ids as in 1,2, or "" for none.
  std::string chat_template{};   ///< A file with a chat template; "": that of the checkpoint.
  /// Called during long calls, about ten times a second, on the thread that makes the call: to look for signals, for
  /// example. An exception that it throws ends the call and propagates to the caller. It must be thread-safe.
  std::function<void()> poll{};
};

}  // namespace vitrine
