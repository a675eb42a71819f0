// What a family of checkpoints is to vitrine: a reader of its config and a table of its tensors. One file each in
// families/; nothing below this room knows their names.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/config_reader.h"
#include "checkpoint/config_rope.h"
#include "model/config.h"

namespace vitrine {

/// How the rows of several parameters stand in one tensor: one after the other, or head by head: for each K/V head its
/// rows of each parameter in turn (the queries that share it, its keys, its values).
enum class Rows : std::uint8_t { stacked, by_kv_head };

/// A tensor of the file and the parameters it holds. `{l}` stands for the layer, `{e}` for the expert, `{p}` for the
/// prefix under which the file's tensors stand. Several of ours: their rows share the tensor, in this order. Where they
/// are mixed head by head they are copied apart when loaded; else they are seen where they lie. `{e}` in ours alone:
/// all experts stand in one tensor `[expert, out, in]`.
struct TensorRule {
  std::string_view stored;
  std::vector<std::string_view> ours;
  bool transposed = false;  ///< Stored as `[in, out]`.
  Rows rows = Rows::stacked;
  bool (*applies)(const BlockConfig&) = nullptr;  ///< To layers of this kind only; null: to all.
};

struct Family {
  /// One of our names for a size, and the key of config.json that holds it.
  struct Key {
    std::string_view ours, theirs;
  };

  std::string_view model_type;                  ///< config.json's key of that name.
  std::vector<std::string_view> architectures;  ///< config.json's list must hold one of these, if it is there.
  std::function<ModelConfig(ConfigReader&)> read_config;
  std::vector<std::string_view> prefixes;  ///< Tried in order: the first that makes `embedding` a tensor of the file.
  std::string_view embedding;
  std::vector<TensorRule> tensors;
  std::vector<std::string_view> ignored;  ///< Buffers that can be computed.
  std::vector<Key> keys;                  ///< For --set d_model=64 and the like.
};

/// All families, in no particular order.
std::span<const Family> all_families();

// Pieces of configs that several families share, each in the words of transformers' config.json.

/// An activation by its name in transformers (ACT2FN).
Activation activation_named(const ConfigReader& config, std::string_view name);
/// Whether each layer attends within the window, by layer_types. Where the key is absent: all layers but every
/// `pattern`-th, or nothing without a pattern.
std::vector<bool> read_sliding_layers(ConfigReader& config, std::size_t n_layers,
                                      std::optional<std::int64_t> pattern = std::nullopt);

}  // namespace vitrine
