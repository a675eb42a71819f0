// A tokenized corpus on disk: token shards, written once and mapped.
//
// A folder of shard-00000.tokens, shard-00001.tokens, … Each is, little-endian,
//
//   0   8 bytes  "VITRTOKS"                     40  u64  tokens in this shard
//   8   u32      version, 1                     48  u64  documents in this shard
//   12  u32      bytes per id, 2 or 4           56  u64  UTF-8 bytes of text in this shard
//   16  u64      vocabulary size                64  u32  number of this shard, from 0
//   24  u64      fingerprint of the tokenizer   68  u32  1 in the last shard, else 0
//   32  u64      the id that begins every       72  24 bytes of zeros
//                document, 2^64 − 1: none       96  ids; zeros up to a multiple of 8; for each document, u64, the
//                                                   place of its first token in this shard
//
// Each document is in one shard. The shards, in order, form one stream of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_writer.h"
#include "base/mapped_file.h"

namespace vitrine {

/// The same in every shard of a corpus.
struct TokenInfo {
  std::int64_t vocab_size = 0;
  std::uint64_t fingerprint = 0;               ///< tokenizer_fingerprint() (tokenizer/tokenizer.h)
  std::optional<std::int32_t> document_token;  ///< Every document begins with it.
};

/// Writes the shards of a corpus. Without finish() the destructor removes them.
class ShardWriter {
 public:
  /// Creates `folder` if necessary. Throws BadInput if this fails, or if the folder is not empty.
  ShardWriter(std::string folder, const TokenInfo& info, std::int64_t shard_tokens);
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;
  ~ShardWriter();

  /// Begins a document, in a new shard if the last one is full.
  void begin_document();
  /// Appends tokens of the document, for `text_bytes` bytes of text. Throws BadInput for an id outside the vocabulary,
  /// OutOfCapacity if the disk is full.
  void write(std::span<const std::int32_t> ids, std::int64_t text_bytes);
  void finish();  ///< Completes the last shard. Throws BadInput if there is no document.

  std::int64_t shards() const { return static_cast<std::int64_t>(paths_.size()); }

 private:
  void open_shard();
  void close_shard(bool is_last);

  std::string folder_;
  TokenInfo info_;
  std::int64_t shard_tokens_;
  std::size_t id_bytes_;
  bool made_folder_ = false, finished_ = false;
  std::vector<std::string> paths_;
  std::unique_ptr<FileWriter> file_;
  std::int64_t n_tokens_ = 0, text_bytes_ = 0;
  std::vector<std::uint64_t> starts_;
  std::vector<std::byte> encoded_;
};

/// The shards of a folder, mapped. Opening reads only their headers, so a corpus may be larger than memory. All content
/// is checked when it is read; an invalid file throws BadCheckpoint. Safe for any number of threads.
class TokenShards {
 public:
  /// Throws BadInput if the folder has no shards, BadCheckpoint or Unsupported if one is invalid.
  static TokenShards open(const std::string& folder);

  const TokenInfo& info() const { return info_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t text_bytes() const { return text_bytes_; }

  /// Reads the tokens [begin, begin + ids.size()) of the stream. Throws BadInput if they are not within it.
  void read(std::int64_t begin, std::span<std::int32_t> ids) const;
  /// The places in [begin, end) where documents begin, ascending.
  std::vector<std::int64_t> document_starts(std::int64_t begin, std::int64_t end) const;

 private:
  struct Shard {
    std::shared_ptr<const MappedFile> file;
    std::int64_t begin = 0;  // in the stream
    std::int64_t tokens = 0;
    std::int64_t documents = 0;
    std::size_t starts_at = 0;  // byte in the file
    std::uint64_t start(std::int64_t n) const;
  };
  void add(const std::string& path, bool& is_last);
  std::size_t shard_of(std::int64_t place) const;
  void check_range(std::int64_t begin, std::int64_t end) const;

  std::string folder_;
  TokenInfo info_;
  std::size_t id_bytes_ = 0;
  std::vector<Shard> shards_;
  std::int64_t tokens_ = 0, documents_ = 0, text_bytes_ = 0;
};

}  // namespace vitrine
