// What requests are checked against and answered with: a model's names, sizes, tokenizer and defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_format.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "generate/make_request.h"
#include "inspect/feature_index.h"
#include "serve/request_fields.h"
#include "serve/served_modifiers.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// All pointers are borrowed.
struct ServedModel {
  std::vector<std::string> names;  ///< At least one; the first one is that of responses.
  std::int64_t created = 0;        ///< Unix time at which it was loaded.
  std::string family;              ///< model_type of the family; "" if it is not known.
  std::int64_t vocab_size = 0, max_seq_len = 0, d_model = 0;
  const Model* model = nullptr;          ///< Not null if its values can be read.
  const Tokenizer* tokenizer = nullptr;  ///< Null: prompts are ids.
  const ChatFormat* chat = nullptr;      ///< Null: the model has no chat template.
  ServedModifiers* modifiers = nullptr;  ///< Its adapters and control vectors; null: it has none.
  ChatTemplates templates;               ///< And the special tokens that they read.
  /// As OpenAI's interface has it, all tokens are sampled unless the checkpoint says otherwise.
  RequestDefaults defaults{.otherwise = {.temperature = 1, .top_k = 0, .top_p = 1}};
  std::vector<std::int32_t> chat_stop_ids;  ///< Any of them ends an answer.
  std::optional<std::int32_t> pad_id{};     ///< The padding that the checkpoint names.
  bool can_generate = true;                 ///< Otherwise it only makes vectors of texts.
  SentenceConfig sentences;                 ///< How texts become vectors.
  UnknownFields unknown_fields = UnknownFields::refuse;
  bool can_inspect = true;                  ///< Requests may read and change values of the forward.
  std::int64_t max_trace_bytes = 64 << 20;  ///< Of the values that a request reads.
  FeatureIndexes feature_indexes{};         ///< Of its dictionaries; empty: there are none.
};

}  // namespace vitrine
