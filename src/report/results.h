// The results of a call as the JSON that the program prints with --json.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "generate/engine.h"
#include "generate/generator.h"
#include "generate/speculation.h"
#include "tokenizer/tokenizer.h"
#include "train/progress.h"

namespace vitrine {

/// JSON as one line. Infinities and NaN become null; bytes that are not UTF-8 are replaced.
std::string json_line(const Json& value);

/// The piece as in the vocabulary; "" without a tokenizer, and for ids outside it.
std::string piece_of(const Tokenizer* tokenizer, std::int32_t id);

/// What `generate` prints, without speculation. `from_checkpoint`: as of make_request(). `tokenizer` may be null.
Json generate_json(const GenerateRequest& request, const std::vector<std::string>& from_checkpoint,
                   const GenerateResult& result, const GenerateTimings& timings, const Tokenizer* tokenizer);

/// {"method","drafted","accepted","rounds"}; null for a result without speculation.
Json speculation_json(const Speculation* speculation, const GenerateResult& result);

/// What `train` prints at the end.
Json train_json(const TrainResult& result);
/// A step of training: {"step","steps","loss","lr","grad_norm","tokens_per_s","val_loss"}.
Json progress_json(const TrainProgress& progress);

/// Adds the score and the hypotheses of a result.
void add_hypotheses(const GenerateResult& result, Json& object);

}  // namespace vitrine
