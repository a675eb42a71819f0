// Long texts in windows that overlap, and texts as the ids that a model reads whole, with their places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generate/read_texts.h"
#include "tokenizer/placed.h"

namespace vitrine {

struct WindowOptions {
  std::int64_t most = 0;                 ///< Ids of a window, with those of the template.
  std::optional<std::int64_t> stride{};  ///< Ids that a window repeats of the one before; absent: one window, cut.
  SpecialTokens policy = SpecialTokens::apply;
};

/// The windows of a text or, after `question`, of the second text of a pair; only this text is cut. The last window
/// ends with the text. Throws BadInput if the template, the question and the stride leave no room, Unsupported as
/// encode_placed() does. Source: the tokenizers library, truncation with overflow (only_first, only_second).
std::vector<PlacedTexts> windows_of(const Tokenizer& tokenizer, const std::string& text,
                                    const std::optional<std::string>& question, const WindowOptions& options);

/// A text, or a pair, as rerank and classify read it: cut to `options.most` ids, a pair by its longer text.
PlacedTexts whole_text(const Tokenizer& tokenizer, const std::string& text, const std::optional<std::string>& pair,
                       const WindowOptions& options);

/// Texts that wait for a pass, and what they are read as.
struct WindowTexts {
  std::vector<std::vector<std::int32_t>> ids, types;

  /// `is_typed`: the model has types of tokens.
  void add(const PlacedTexts& window, bool is_typed);
  TextIds texts() const { return {ids, types}; }
};

}  // namespace vitrine
