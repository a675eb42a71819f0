// How the words of a byte-level BPE are cut, by the names of tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

struct PreTokenizerRule {
  std::vector<std::string_view> names;
  /// Each cuts what the one before left: its matches and what lies between them are words.
  std::vector<std::string_view> patterns;
  bool add_bos = false;        ///< Where the file does not say.
  bool ignore_merges = false;  ///< A word that is a token is that token.
};

/// Throws Unsupported, naming it, for a pre-tokenizer that is not known, or none.
const PreTokenizerRule& gguf_pre_tokenizer(std::string_view name, std::string_view where);

/// The name of words cut by these regexes, one stage after the other; "" where they have none.
std::string_view gguf_pre_name(const std::vector<std::string>& patterns, bool ignore_merges);

}  // namespace vitrine
