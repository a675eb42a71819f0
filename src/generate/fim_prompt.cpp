#include "generate/fim_prompt.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

using Ids = std::vector<std::int32_t>;

void append(const Ids& from, Ids& to) { to.insert(to.end(), from.begin(), from.end()); }

const FimTokens& tokens_of(const RequestDefaults& model, const char* where) {
  if (!can_fill(model)) throw BadInput(where, "{}", kNoFimTokens);
  return model.tokenizer->fim_tokens();
}

bool begins_with_bos(const RequestDefaults& model) { return model.tokenizer->adds_bos(); }

/// The files before the one that is filled in.
Ids files_of(const Tokenizer& tokenizer, const std::vector<FimFile>& files) {
  const FimTokens& tokens = tokenizer.fim_tokens();
  Ids ids;
  const auto begin = [&](std::int32_t token, const std::string& name) {
    ids.push_back(token);
    append(tokenizer.encode_part(name + "\n"), ids);
  };
  if (tokens.repository) begin(*tokens.repository, "myproject");
  for (const FimFile& file : files) {
    if (tokens.file) {
      begin(*tokens.file, file.name);
    } else {
      append(tokenizer.encode_part("\n\n--- snippet ---\n\n"), ids);
    }
    append(tokenizer.encode_part(file.text), ids);
  }
  if (tokens.file) begin(*tokens.file, "filename");
  return ids;
}

}  // namespace

bool can_fill(const RequestDefaults& model) {
  return model.tokenizer != nullptr && !model.has_encoder && model.tokenizer->fim_tokens().can_fill();
}

std::vector<std::int32_t> fim_prompt(const RequestDefaults& model, std::vector<std::int32_t> prefix,
                                     std::string_view suffix, const char* where, bool adds_bos) {
  const FimTokens& tokens = tokens_of(model, where);
  Ids ids;
  if (adds_bos && begins_with_bos(model)) ids.push_back(*model.tokenizer->bos());
  ids.push_back(*tokens.prefix);
  append(prefix, ids);
  ids.push_back(*tokens.suffix);
  append(model.tokenizer->encode_part(suffix), ids);
  ids.push_back(*tokens.middle);
  return ids;
}

std::vector<std::int32_t> fim_prompt(const RequestDefaults& model, std::string_view prefix, std::string_view suffix,
                                     const char* where, bool adds_bos) {
  tokens_of(model, where);
  return fim_prompt(model, model.tokenizer->encode_part(prefix), suffix, where, adds_bos);
}

std::vector<std::int32_t> fim_prompt(const RequestDefaults& model, const FimContext& context, std::int64_t max_seq_len,
                                     std::int64_t n_new) {
  const FimTokens& tokens = tokens_of(model, "input_suffix");
  const Tokenizer& tokenizer = *model.tokenizer;
  Ids prefix = tokenizer.encode_part(context.prefix), suffix = tokenizer.encode_part(context.suffix);
  const Ids begin = tokenizer.encode(context.begin, SpecialTokens::written);
  const Ids files = files_of(tokenizer, context.files);

  constexpr std::int64_t kBatch = 2048, kNone = 0,
                         kTokensAround = 2;  // the middle's token and BOS are not in the batch
  const std::int64_t n_free = std::clamp<std::int64_t>(n_new, 1, std::max<std::int64_t>(1, max_seq_len / 4));
  const std::int64_t batch = std::clamp(max_seq_len - n_free - kTokensAround, kNone, kBatch);
  const std::int64_t n_prefix = std::min<std::int64_t>(std::ssize(prefix), 3 * (batch / 4));
  const std::int64_t n_suffix =
      std::min<std::int64_t>(std::ssize(suffix), std::max(kNone, batch / 4 - (2 + std::ssize(begin))));
  const std::int64_t n_files =
      std::min<std::int64_t>(std::ssize(files), std::max(kNone, max_seq_len - batch - 2 * n_free));

  Ids ids(files.end() - n_files, files.end());
  if (begins_with_bos(model)) ids.push_back(*tokenizer.bos());
  ids.push_back(*tokens.prefix);
  ids.insert(ids.end(), prefix.end() - n_prefix, prefix.end());
  append(begin, ids);
  ids.push_back(*tokens.suffix);
  ids.insert(ids.end(), suffix.begin(), suffix.begin() + n_suffix);
  ids.push_back(*tokens.middle);
  return ids;
}

}  // namespace vitrine
