// A corpus as windows of tokens: text, which is tokenized once, or the shards of `vitrine data pack`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/options.h"
#include "data/shards.h"
#include "inspect/feature_indexer.h"

namespace vitrine::cli {

class CorpusWindows {
 public:
  /// `path` is a folder of shards, which are mapped; or a text file, JSON Lines with "text", or a folder of them, whose
  /// tokens are written to a folder in `work` unless it has them already. Throws as pack_corpus() and
  /// TokenShards::open(), BadInput for shards of another tokenizer or vocabulary.
  CorpusWindows(const std::string& path, const Session& session, const std::string& work);

  /// A window has at most `window` tokens of one document, including the BOS with which it begins unless `bos` is
  /// absent. A BOS that a document begins with is not put before it again.
  void divide(std::int64_t window, std::optional<std::int32_t> bos) { window_ = window, bos_ = bos; }
  CorpusWindow at(std::int64_t start) const;

  std::int64_t tokens() const { return shards_->tokens(); }
  /// What tells it from other corpora without reading it.
  const Json& identity() const { return identity_; }

 private:
  std::optional<TokenShards> shards_;
  Json identity_;
  std::int64_t window_ = 0;
  std::optional<std::int32_t> bos_;
};

}  // namespace vitrine::cli
