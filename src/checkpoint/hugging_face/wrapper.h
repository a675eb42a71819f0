// Wrappers: models that read images or sounds, whose config holds that of a text model (`text_config`). vitrine runs
// the text half. Its completed config is read by its own family, and its tensors get the names that this family's own
// files have, so that nothing above this header distinguishes it from a text model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/bind_tensors.h"

namespace vitrine {

/// A key of the config with the id of a token that other models replace by the vectors of a picture or a sound.
struct PlaceholderKey {
  std::string_view key, kind;  ///< The kind as in PlaceholderTokens.
};

struct Wrapper {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view other_architecture{};  ///< Of files of another origin; empty: none.
  std::string_view text_type;             ///< The model_type of the text half if `text_config` names none.
  bool any_text = false;                  ///< The text half may be of another family than that of text_type.
  bool tied = false;                      ///< The head of the text half is tied if the config does not say.
  bool text_may_tie = false;              ///< It is tied, too, if `text_config` says so and the wrapper does not.
  bool flat = false;  ///< Published configs have the keys of the text half next to those of the wrapper.
  std::vector<PlaceholderKey> placeholders;
  std::vector<std::string_view> keys;    ///< Other keys, which say nothing about the text half.
  std::string_view layers{};             ///< What files may call `layers` of the text half; empty: nothing else.
  std::vector<std::string_view> unread;  ///< Beginnings of the names of tensors that are no part of the text half.
};
std::span<const Wrapper> all_wrappers();

/// The values that transformers assumes for keys that a `text_config` lacks, and the family that reads it.
struct TextType {
  std::string_view model_type, family;
  std::string_view defaults;  ///< JSON
  /// Positions have three parts, which are equal for text: its keys are then left out.
  bool three_positions = false;
};
std::span<const TextType> text_types();

/// The config of a text model, alone or from a wrapper.
struct TextHalf {
  Json config;
  std::string where;                 ///< Names the config in messages.
  const Wrapper* wrapper = nullptr;  ///< Null: `config` is a whole config.json, unchanged.
  PlaceholderTokens placeholders{};
};

/// The text half of a wrapper's config, and any other config unchanged. The wrapper's tie_word_embeddings and special
/// ids overrule those in `text_config`; `allowed` lists unknown keys to accept. Throws BadCheckpoint, Unsupported.
TextHalf text_half(Json config, const std::string& where, const std::vector<std::string>& allowed = {});
/// The same for the config.json at `path`. Throws as read_json_file() does, too.
Json read_text_config(const std::string& path);

/// Renames the tensors of the text half as its family's own files do, and removes those that the model does not have:
/// of the wrapper's other parts, and of layers that predict further tokens. Returns what was removed.
std::vector<UnreadTensors> keep_text_half(const TextHalf& half, const Family& family, StoredTensors& tensors);

}  // namespace vitrine
