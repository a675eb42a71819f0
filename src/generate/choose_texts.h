// What the two stacks of an encoder–decoder read.
#pragma once

#include "checkpoint/load.h"
#include "generate/engine.h"
#include "generate/text_search.h"

namespace vitrine {

/// The first token that the decoder reads. `tokenizer` may be null. Throws BadInput if the checkpoint has none.
std::int32_t start_id(const Checkpoint& checkpoint, const Tokenizer* tokenizer);
/// What the decoder reads for a text: the start symbol, then the text.
std::vector<std::int32_t> decoder_ids(const std::string& text, SpecialTokens policy, const Checkpoint& checkpoint,
                                      const Tokenizer& tokenizer);

/// The id of the language's token; none if the prefix has no language. Throws BadInput if the vocabulary has no such
/// token.
std::optional<std::int32_t> language_id(const TextPrefix& prefix, const Tokenizer* tokenizer);

/// Sets prompt and source of a request: in an encoder–decoder `ids` are the source, and the prompt is the start symbol,
/// followed by the prefix; otherwise `ids` are the prompt. `tokenizer` may be null. Throws BadInput for a prefix
/// without an encoder.
void choose_texts(const TextPrefix& prefix, const Checkpoint& checkpoint, const Tokenizer* tokenizer,
                  std::vector<std::int32_t> ids, GenerateRequest& request);

}  // namespace vitrine
