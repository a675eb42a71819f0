// A model with a head for labels in place of another, or of none: the same layers under the config of another class.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "checkpoint/family.h"
#include "checkpoint/load.h"

namespace vitrine {

/// The parameter of a model without the task's head that has the weights of a parameter of the head, such as BERT's
/// pooler: its name, or `name` for a parameter of the layers; "" for one that is new.
std::string source_of_head(const Family& family, const std::string& name);

/// Fills the elements of the head's parameter number `i` of for_each_param, which the base does not have.
using FillParam = std::function<void(const ModelConfig& config, const std::string& name, const Shape& shape,
                                     std::uint64_t i, std::span<float> values)>;

/// `base` as the model that `config` describes; `where` names the config in messages. Its layers are shared, in their
/// types. Parameters of the head that the base has are shared, too; the others are float32, and `fill` gives their
/// values. Throws as family_of() and read_model_config(), and Unsupported if another parameter is not in the base.
Checkpoint with_new_head(const Checkpoint& base, const Json& config, const std::string& where, const FillParam& fill);

/// The config.json of the folder of an adapter that also holds a head for labels (modules_to_save), if it names a class
/// with such a head; absent: it has none. Throws as read_json_file().
std::optional<Json> config_of_head(const std::string& adapter);

}  // namespace vitrine
