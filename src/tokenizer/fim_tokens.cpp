#include "tokenizer/fim_tokens.h"

#include <unordered_map>

#include "tokenizer/algorithms/piece_table.h"

namespace vitrine {
namespace {

using Member = std::optional<std::int32_t> FimTokens::*;

struct Spellings {
  Member token;
  std::vector<std::string_view> texts;
};

/// Source: ggml-org/llama.cpp, src/llama-vocab.cpp (load), where the tokens of DeepSeek have these meanings, too: its
/// "hole" is where the middle was, so what follows it is the suffix, and its "end" ends the suffix. `end` of CodeLlama:
/// Rozière et al., "Code Llama", 2023; transformers, CodeLlamaTokenizer. Mistral's [PREFIX] and [SUFFIX] are not here:
/// its models read the suffix first and have no token for the middle.
const std::vector<Spellings>& spellings() {
  // Of Qwen and CodeGemma, SantaCoder, StarCoder and Granite, DeepSeek, (none), CodeLlama, GLM, Falcon-H1.
  static const std::vector<Spellings> all = {
      {&FimTokens::prefix,
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uFF5Cfim\u2581begin\uFF5C>", "<PRE>", "\u2581<PRE>",
        "<|code_prefix|>", "<|prefix|>"}},
      {&FimTokens::suffix,
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uFF5Cfim\u2581hole\uFF5C>", "<SUF>", "\u2581<SUF>",
        "<|code_suffix|>", "<|suffix|>"}},
      {&FimTokens::middle,
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uFF5Cfim\u2581end\uFF5C>", "<MID>", "\u2581<MID>",
        "<|code_middle|>", "<|middle|>"}},
      {&FimTokens::pad, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {&FimTokens::repository, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {&FimTokens::file, {"<|file_sep|>"}},
      {&FimTokens::end, {"\u2581<EOT>"}},
  };
  return all;
}

}  // namespace

std::vector<std::int32_t> FimTokens::all() const {
  std::vector<std::int32_t> ids;
  for (const auto& id : {prefix, suffix, middle, pad, repository, file, end}) {
    if (id) ids.push_back(*id);
  }
  return ids;
}

FimTokens find_fim_tokens(FunctionRef<std::int32_t(std::string_view)> find) {
  FimTokens tokens;
  for (const auto& [token, texts] : spellings()) {
    for (const std::string_view text : texts) {
      if (tokens.*token) break;
      if (const std::int32_t id = find(text); id != kNoId) tokens.*token = id;
    }
  }
  return tokens;
}

FimTokens find_fim_tokens(std::int64_t n, FunctionRef<std::string_view(std::int32_t)> piece) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (const auto& [token, texts] : spellings()) {
    for (const std::string_view text : texts) ids.emplace(text, kNoId);
  }
  for (std::int64_t id = 0; id < n; ++id) {
    const auto found = ids.find(piece(static_cast<std::int32_t>(id)));
    if (found != ids.end()) found->second = static_cast<std::int32_t>(id);
  }
  return find_fim_tokens([&](std::string_view text) { return ids.at(text); });
}

}  // namespace vitrine
