// The pre-tokenizers of byte-level BPE that tokenizer.ggml.pre names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

struct PreTokenizerRule {
  std::vector<std::string_view> names;
  /// Each splits the words of the previous one into its matches and the text between them.
  std::vector<std::string_view> patterns;
  bool add_bos = false;        ///< Used if the file has no tokenizer.ggml.add_bos_token.
  bool ignore_merges = false;  ///< As in BpeOptions.
};

/// Throws Unsupported if `name` is empty or not known.
const PreTokenizerRule& gguf_pre_tokenizer(std::string_view name, std::string_view where);

/// The name of the pre-tokenizer with these patterns, or "" if there is none.
std::string_view gguf_pre_name(const std::vector<std::string>& patterns, bool ignore_merges);

}  // namespace vitrine
