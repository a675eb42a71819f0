#include "data/pack.h"

#include <utility>

#include "base/error.h"
#include "tokenizer/train/corpus.h"

namespace vitrine {
namespace {

constexpr std::size_t kRoundBytes = std::size_t{1} << 20;  // of text per thread
constexpr std::size_t kRoundPieces = 4096;

/// Pieces of a corpus, tokenized by all threads.
class Round {
 public:
  Round(const Tokenizer& tokenizer, ThreadPool& pool) : tokenizer_(tokenizer), pool_(pool) {
    for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
      lengths_.push_back(static_cast<std::int64_t>(tokenizer.bytes(static_cast<std::int32_t>(id)).size()));
    }
  }

  /// Reads and tokenizes the next pieces. Returns false at the end of the corpus.
  bool read(CorpusReader& reader) {
    n_ = 0;
    const std::size_t most = kRoundBytes * static_cast<std::size_t>(pool_.size());
    for (std::size_t bytes = 0; bytes < most && n_ < kRoundPieces; ++n_) {
      if (n_ == pieces_.size()) pieces_.emplace_back();
      if (!reader.next(pieces_[n_])) break;
      bytes += pieces_[n_].text.size();
    }
    ids_.resize(pieces_.size());
    pool_.parallel_for(static_cast<std::int64_t>(n_), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        ids_[i] = tokenizer_.encode(pieces_[i].text, SpecialTokens::none);
      }
    });
    return n_ > 0;
  }

  void write(ShardWriter& writer, const PackOptions& options, Packed& packed) {
    for (std::size_t i = 0; i < n_; ++i) {
      const auto bytes = static_cast<std::int64_t>(pieces_[i].text.size());
      std::int64_t spelled = 0;
      for (const std::int32_t id : ids_[i]) spelled += lengths_[static_cast<std::size_t>(id)];
      if (spelled < bytes) packed.lost_bytes += bytes - spelled;
      is_pending_ |= pieces_[i].begins_document;
      if (is_pending_ && ids_[i].empty()) continue;  // the vocabulary has none of its characters
      if (std::exchange(is_pending_, false)) {
        writer.begin_document();
        ++packed.documents;
        if (options.document_token) writer.write(std::span(&*options.document_token, 1), 0);
        packed.tokens += options.document_token ? 1 : 0;
      }
      writer.write(ids_[i], bytes);
      packed.tokens += static_cast<std::int64_t>(ids_[i].size());
      packed.text_bytes += bytes;
    }
  }

 private:
  const Tokenizer& tokenizer_;
  ThreadPool& pool_;
  std::vector<std::int64_t> lengths_;  // bytes of each id
  std::vector<CorpusReader::Piece> pieces_;
  std::vector<std::vector<std::int32_t>> ids_;
  std::size_t n_ = 0;
  bool is_pending_ = false;  // a document has begun, but has no tokens yet
};

}  // namespace

std::optional<std::int32_t> special_token(const Tokenizer& tokenizer, const std::string& text) {
  for (const std::int32_t id : tokenizer.encode(text, SpecialTokens::apply)) {  // possibly between BOS and EOS
    if (tokenizer.bytes(id).empty() && tokenizer.piece(id) == text) return id;
  }
  return std::nullopt;
}

std::optional<std::int32_t> document_token_of(const Tokenizer& tokenizer) {
  if (tokenizer.bos()) return tokenizer.bos();
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "<|begin_of_text|>", "<s>", "<bos>", "</s>", "<eos>"}) {
    if (const auto id = special_token(tokenizer, name)) return id;
  }
  return std::nullopt;
}

std::optional<std::int32_t> end_token_of(const Tokenizer& tokenizer) {
  if (!tokenizer.stop_ids().empty()) return tokenizer.stop_ids().front();
  for (const char* name : {"</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "[SEP]"}) {
    if (const auto id = special_token(tokenizer, name)) return id;
  }
  return std::nullopt;
}

Packed pack_corpus(const std::vector<std::string>& files, const Tokenizer& tokenizer, const std::string& folder,
                   const PackOptions& options, ThreadPool& pool, const ReportProgress& report) {
  ShardWriter writer(folder, {tokenizer.vocab_size(), tokenizer_fingerprint(tokenizer), options.document_token},
                     options.shard_tokens);
  CorpusReader reader(files, {options.document_separator, {}});
  Packed packed;
  Round round(tokenizer, pool);
  while (round.read(reader)) {
    round.write(writer, options, packed);
    if (report) report(reader.bytes_done(), reader.bytes_total());
  }
  writer.finish();
  packed.shards = writer.shards();
  return packed;
}

}  // namespace vitrine
