// Opens models, for the program and for the library.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/adapters/adapter.h"
#include "checkpoint/load.h"
#include "generate/make_request.h"
#include "generate/open_options.h"

namespace vitrine {

/// A model as OpenOptions says.
struct OpenedModel {
  Checkpoint checkpoint{};
  Compute compute = Compute::automatic;          ///< How its passes multiply.
  std::string tokenizer_path{};                  ///< "": there is none.
  std::unique_ptr<const Tokenizer> tokenizer{};  ///< Null: there is none, or it was not wanted.
  std::exception_ptr why_no_tokenizer{};         ///< BadInput or Unsupported, if it was wanted.
  std::vector<std::shared_ptr<const LoadedAdapter>> adapters{};
  ModifierList applied{};  ///< The adapters and control vectors with their scales.

  /// Opens an adapter in addition to those that the model has. Throws as load_adapter(), and BadInput for a scale that
  /// is not finite.
  void add(const OpenAdapter& adapter, ThreadPool& pool);
  /// The same for a control vector. Throws as load_control(), and BadInput for a scale that is not finite and layers
  /// whose first is after the last.
  void add(const OpenControl& control);
  /// The same for dictionaries. Throws as load_dictionaries(), and BadInput for two at one site without names.
  void add(const OpenDictionary& dictionary, DictionaryUse use, std::shared_ptr<const SkippedTokens> skipped,
           ThreadPool& pool);
  RequestDefaults defaults() const { return defaults_of(checkpoint, tokenizer.get()); }
};

/// PATH[=SCALE] and PATH[=SCALE][:FIRST-LAST] (modifier_text.h). Throw BadInput, also for a text with a name.
OpenAdapter adapter_of(const std::string& text);
OpenControl control_of(const std::string& text);

/// The files of `path` and of what the options name, as paths: names of models on a hub (hf:ORG/NAME) are fetched, as
/// far as the cache lacks them. Throws as pull(), and what OpenOptions::poll throws.
OpenOptions with_local_paths(std::string& path, OpenOptions options);

/// Opens what a path or a name of a model on a hub names. A checkpoint whose own tokenizer is missing or not supported
/// is opened without one. Throws as with_local_paths(), load_checkpoint(), load_tokenizer(), add(), and Unsupported for
/// weights that cannot be multiplied as the options say. `path` names the model in errors.
OpenedModel open_model(const std::string& path, const OpenOptions& options, bool wants_tokenizer, ThreadPool& pool);
/// The same for a checkpoint that has been loaded.
OpenedModel open_checkpoint(const std::string& path, Checkpoint checkpoint, const OpenOptions& options,
                            bool wants_tokenizer, ThreadPool& pool);

}  // namespace vitrine
