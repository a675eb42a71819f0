// The prompts of a model that fills in the middle of a text (tokenizer/fim_tokens.h): the token of the prefix, the
// prefix, the token of the suffix, the suffix, the token of the middle. What the model then writes is the middle.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generate/make_request.h"

namespace vitrine {

inline constexpr const char* kNoFimTokens = "the model has no tokens for filling in the middle";

/// Whether the model fills in the middle of a text.
bool can_fill(const RequestDefaults& model);

/// The prompt, in which BOS comes first if the tokenizer adds one to texts and `adds_bos`. `prefix` has no special
/// tokens. Throws BadInput, naming `where`, if the model cannot fill.
std::vector<std::int32_t> fim_prompt(const RequestDefaults& model, std::vector<std::int32_t> prefix,
                                     std::string_view suffix, const char* where, bool adds_bos = true);
/// The same of a text.
std::vector<std::int32_t> fim_prompt(const RequestDefaults& model, std::string_view prefix, std::string_view suffix,
                                     const char* where, bool adds_bos = true);

/// A file that the model reads before the one that it fills in.
struct FimFile {
  std::string name = "tmp", text;
};

/// What an editor sends.
struct FimContext {
  std::string prefix, suffix;
  std::string begin;  ///< The middle begins with it; special tokens that are written in it count.
  std::vector<FimFile> files;
};

/// The prompt of llama-server's /infill, from which these are taken: BOS and the tokens of the prefix come after the
/// files; where the vocabulary has the tokens, the files are those of the repository "myproject", and the last one is
/// called "filename"; `begin` comes before the suffix; of a batch of 2048 tokens, the end of the prefix gets 3/4, the
/// beginning of the suffix and `begin` the rest; of the files, the end stays that fits into the context, less the batch
/// and twice the `n_new` tokens that are asked for. Source: ggml-org/llama.cpp, tools/server/server-common.cpp
/// (format_prompt_infill).
///
/// Unlike there, `n_new` is that of the request; at most a quarter of the context is kept free for it, and the batch is
/// smaller in a context of less than 2048 tokens and `n_new`, where the prompt would leave no space. Throws BadInput if
/// the model cannot fill.
std::vector<std::int32_t> fim_prompt(const RequestDefaults& model, const FimContext& context, std::int64_t max_seq_len,
                                     std::int64_t n_new);

}  // namespace vitrine
