// The modules of a folder of sentence-transformers after the first: each kind is a row of one table.
//
// Source: sentence-transformers 6.2.0, the modules of base, sentence_transformer, sparse_encoder, multi_vector_encoder
// and cross_encoder.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/config_reader.h"
#include "model/text_steps.h"

namespace vitrine {

class Tokenizer;

/// A module while it is read.
struct ModuleFolder {
  std::string where;  ///< Its config.json.
  std::filesystem::path folder;
  Json config;
  std::string name;  ///< Of its parameters.
  const Tokenizer* tokenizer;

  ConfigReader reader() const { return ConfigReader(config, where); }
};

/// Makes the step of a module, whose parameters `steps` owns. Throws BadCheckpoint for files that are missing or
/// malformed, Unsupported for an option that is not supported, BadInput without a tokenizer that is needed.
using ReadStep = TextStep (*)(const ModuleFolder& module, TextSteps& steps);

/// What reads modules of a class; null for a class that is not supported.
ReadStep step_reader(std::string_view name);

/// The place of a key's value, or of `otherwise`, in `names`. Throws Unsupported for another value.
std::size_t choice_of(ConfigReader& c, std::string_view key, std::string_view otherwise,
                      std::initializer_list<std::string_view> names);
/// Throws Unsupported for a key that is not in `known`.
void refuse_unknown(const ConfigReader& c, std::initializer_list<std::string_view> known);

}  // namespace vitrine
