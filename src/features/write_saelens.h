// Writes a dictionary as a folder of SAELens: cfg.json and sae_weights.safetensors.
#pragma once

#include <cstdint>
#include <string>

#include "pass/dictionary.h"

namespace vitrine {

/// Where a dictionary was trained; "" and 0: not known.
struct DictionaryOrigin {
  std::string site, site_out, model;  ///< site_out: "" for an SAE.
  std::int64_t context = 0;
};

/// Writes the files into `folder`, which must exist. The dictionary has float32 parameters, no skip connection, and a
/// selection of relu, jump or topk; its architecture in the file is `standard`, `jumprelu` or `topk`, of transcoders
/// `transcoder`, `jumprelu_transcoder`, or `topk` with a `hook_name_out`, since SAELens has no TopK transcoder. Throws
/// as FileWriter does, and InternalError for another dictionary.
void write_saelens(const Dictionary& dictionary, const DictionaryOrigin& origin, const std::string& folder);

}  // namespace vitrine
