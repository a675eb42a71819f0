// The active features of a text as the JSON that `vitrine features` prints.
#pragma once

#include <cstdint>
#include <span>

#include "base/json.h"
#include "inspect/feature_reader.h"
#include "pass/taps.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// {"ids","pieces","saes":[{"name","site","architecture","d_in","d_sae","tokens":[[{"index","value"}]]}]} of some rows:
/// the `top` strongest features of each token. `tokenizer` may be null.
Json features_json(std::span<const std::int32_t> ids, std::span<const ActiveFeatures> all, WantedRows rows,
                   std::size_t top, const Tokenizer* tokenizer);

}  // namespace vitrine
