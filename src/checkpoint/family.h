// A family of checkpoints: a reader of its config and a table of its tensors. Each has one file in families/; lower
// modules do not know their names.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/hugging_face/config_reader.h"
#include "checkpoint/hugging_face/config_rope.h"
#include "model/config.h"

namespace vitrine {

/// The order of the rows of several parameters in one tensor: one parameter after the other, or, for each K/V head in
/// turn, its rows of each parameter (the queries that share it, its keys, its values), or, for each query head, or each
/// quarter of the heads, its rows of each parameter, or one row of each parameter in turn.
enum class Rows : std::uint8_t { stacked, by_kv_head, by_head, by_quarter, alternating };

/// A tensor of the file and the parameters that it holds, both without their endings: the rule applies to NAME.weight
/// and to NAME.bias. In the names `{l}` is the layer, `{g}` its number among those with parameters of their own, `{e}`
/// the expert, `{s}` the map of a stream (AltUpConfig), from 0, and `{p}` the prefix of the file's tensors. Parameters
/// share the rows of the tensor in this order. Those that are interleaved head by head are copied when it is loaded, as
/// are columns that alternate; others are views into the file. With `{e}` or `{s}` in `ours` alone, the tensor holds
/// all experts or streams as `[expert, out, in]`, or transposed, or their biases as `[expert, out]`. With `{h}`, a
/// head, in `stored`, each of its tensors holds the part of one head, and is copied when the checkpoint is loaded.
struct TensorRule {
  std::string_view stored;
  std::vector<std::string_view> ours;
  bool transposed = false;  ///< The weight is stored as `[in, out]`.
  Rows rows = Rows::stacked;
  bool (*applies)(const BlockConfig&) = nullptr;  ///< Whether the rule applies to a layer; null: to all layers.
  bool is_copy = false;  ///< Another name of parameters: its bytes must equal those of the tensor under the first name.
  bool has_ending = true;  ///< False: the names are full names, without .weight and .bias.
  bool is_scalar = false;  ///< A vector of one element that is stored without dimensions.
  bool is_buffer = false;  ///< A vector under this very name, without an ending, stored as `[1, n]`; ours is a bias.
  /// A kernel, stored as `[rows, cols / k, k]`: k is the width of a ConvolutionConfig, of one channel all columns.
  bool is_convolution = false;
  bool is_4d = false;  ///< A vector that is stored as `[1, 1, n, 1]`.
};

/// A class of a family that does not predict tokens (model/task_head.h).
struct TaskClass {
  std::string_view ending;          ///< Of its name: ForSequenceClassification.
  TaskHead head{};                  ///< Without labels, which the config has.
  std::vector<TensorRule> tensors;  ///< Of head.dense, head.ln and head.out.
  bool has_dense = false;           ///< A dense layer as wide as the stream.
  /// What else the config decides; null: nothing.
  std::function<void(ConfigReader&, const ModelConfig&, TaskHead&)> read{};
};

/// Where transformers has experts in memory, whose parameters adapters of PEFT name (target_parameters): in one tensor
/// for each layer `[E, 2 f, d]`, and one `[E, d, f]`. Empty names: the family is not one of transformers.
struct ExpertParameters {
  std::string_view gate_up = "{p}layers.{l}.mlp.experts.gate_up_proj", down = "{p}layers.{l}.mlp.experts.down_proj";
  std::string_view router{};   ///< Empty: as in the file.
  Rows rows = Rows::stacked;   ///< Of gate_up.
  bool is_transposed = false;  ///< Without PEFT's knowledge, which takes the inputs for the outputs.
};

/// Whether the file has a tensor of this full name.
using HasTensor = std::function<bool(std::string_view name)>;
/// The shape of a tensor of the file; empty if there is none. The name may have `{p}`.
using ShapeOfTensor = std::function<std::vector<std::int64_t>(std::string_view name)>;

struct Family {
  /// Our name for a size, and the key of config.json that holds it.
  struct Key {
    std::string_view ours, theirs;
  };

  std::string_view model_type;    ///< The value of config.json's model_type.
  std::string_view architecture;  ///< config.json's `architectures`, if present, must contain it or one of `others`.
  std::vector<std::string_view> others{};
  std::function<ModelConfig(ConfigReader&)> read_config;
  std::function<void(ModelConfig&, const HasTensor&)> adapt{};  ///< What the file's tensors decide; null: nothing.
  std::function<void(ModelConfig&, const ShapeOfTensor&)> adapt_to_shapes{};  ///< The same, by their shapes.
  /// Parts of tensors' names, and how the table spells them; for example those of early files.
  std::vector<std::pair<std::string_view, std::string_view>> renames{};
  bool has_encoder = false;                ///< Its models are encoder–decoders, or the encoder of one.
  std::vector<std::string_view> prefixes;  ///< Tried in order until `embedding` is a tensor of the file.
  std::string_view embedding;
  std::vector<TensorRule> tensors;
  ExpertParameters experts{};
  /// Default of router_aux_loss_coef, of families that transformers trains with a balancing loss if
  /// output_router_logits.
  std::optional<double> balance_loss{};
  std::vector<std::string_view> ignored;  ///< Full names of buffers that can be computed.
  std::vector<TaskClass> tasks{};         ///< The other classes of the family.
  std::optional<TaskClass> task{};        ///< The one of them that a config names.
  /// With a task, or without a head: names, without endings, of tensors of other classes, which a file may have.
  std::vector<std::string_view> unused{};
  std::vector<Key> keys;  ///< For --set d_model=64 and the like.

  /// config.json's key for one of our names; other words are returned unchanged.
  std::string key_of(std::string_view word) const;
};

/// A known type of models that no family reads.
struct UnsupportedType {
  std::string_view model_type;
  std::string_view mechanism;  ///< What vitrine lacks for it.
  std::string_view nearest;    ///< model_type of the family that differs least.
};
std::span<const UnsupportedType> unsupported_types();
/// Null if the type is not in that list.
const UnsupportedType* unsupported_type(std::string_view model_type);

/// All families, in no particular order.
std::span<const Family> all_families();
/// The family of a model_type that is known to exist.
const Family& family_named(std::string_view model_type);

}  // namespace vitrine
