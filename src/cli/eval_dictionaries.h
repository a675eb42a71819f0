// vitrine eval --sae: how well dictionaries of features reconstruct their sites over a text.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "generate/evaluate.h"
#include "inspect/dictionary_quality.h"

namespace vitrine::cli {

/// Adds --sae and --sae-skip, whose default is `special`.
void add_measured_dictionaries(Command& command, Options& options);

struct EvaluatedDictionaries {
  Evaluation evaluation;
  std::vector<DictionaryQuality> qualities;
};

/// Evaluates the model over the text, and the context's dictionaries.
EvaluatedDictionaries evaluate_dictionaries(const GenerateContext& context, std::span<const std::int32_t> text,
                                            const EvalConfig& config);

/// Adds "saes".
void add_qualities(const std::vector<DictionaryQuality>& qualities, Json& object);
/// The same as a table.
std::string to_string(const std::vector<DictionaryQuality>& qualities);
/// Writes what is known of each feature to a .safetensors file: KEY.feature_density, KEY.encoder_norm and, where W_enc
/// and W_dec have the same width, KEY.encoder_decoder_cosine_sim.
void write_feature_statistics(const std::string& path, const std::vector<DictionaryQuality>& qualities,
                              ThreadPool& pool);

}  // namespace vitrine::cli
