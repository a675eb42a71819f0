// A table of embeddings and a tokenizer alone: a folder whose first module is StaticEmbedding of sentence-transformers,
// or that model2vec has written.
#pragma once

#include <string>

#include "checkpoint/load.h"

namespace vitrine {

/// A model without sublayers, whose rows are those of the table. `folder` has the tensors and the tokenizer: one tensor
/// `embedding.weight` `[vocabulary, d]`, or model2vec's `embeddings`, with a row for each id in `mapping` and a factor
/// of each row in `weights`, if there are any. Throws as open_tensors(), BadCheckpoint, Unsupported.
Checkpoint load_static_embedding(const std::string& folder);

}  // namespace vitrine
