#include "data/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

struct Header {
  std::array<char, 8> magic = {'V', 'I', 'T', 'R', 'T', 'O', 'K', 'S'};
  std::uint32_t version = 1;
  std::uint32_t id_bytes = 0;
  std::uint64_t vocab_size = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t document_token = kNone;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t text_bytes = 0;
  std::uint32_t number = 0;
  std::uint32_t is_last = 0;
  std::array<std::uint64_t, 3> zeros = {};

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
};
static_assert(sizeof(Header) == 96);

constexpr std::uint64_t kMaxIds = std::uint64_t{1} << 31;
constexpr std::uint32_t kMaxShards = 1 << 20;

std::string shard_path(const std::string& folder, std::size_t number) {
  return (fs::path(folder) / fmt::format("shard-{:05}.tokens", number)).string();
}

std::size_t id_bytes_for(std::int64_t vocab_size) { return vocab_size <= 0x10000 ? 2 : 4; }

template <class Stored>
void copy_ids(const std::byte* from, std::span<std::int32_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Stored id;
    std::memcpy(&id, from + i * sizeof(Stored), sizeof(Stored));
    ids[i] = static_cast<std::int32_t>(id);  // from 2^31 on negative, which the caller rejects
  }
}

}  // namespace

ShardWriter::ShardWriter(std::string folder, const TokenInfo& info, std::int64_t shard_tokens)
    : folder_(std::move(folder)), info_(info), shard_tokens_(shard_tokens), id_bytes_(id_bytes_for(info.vocab_size)) {
  if (shard_tokens_ < 1) throw BadInput(folder_, "expected at least one token per shard, got {}", shard_tokens_);
  std::error_code error;
  if (folder_.empty()) throw BadInput("shards", "expected the name of a folder, got an empty one");
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) {
    throw BadInput(folder_, "expected a folder to write to, got a file");
  }
  if (fs::is_directory(folder_, error) && !fs::is_empty(folder_, error)) {
    throw BadInput(folder_, "expected a new or empty folder; it contains files");
  }
  made_folder_ = fs::create_directories(folder_, error);
  if (error) throw BadInput(folder_, "cannot create the folder: {}", error.message());
}

ShardWriter::~ShardWriter() {
  if (finished_) return;
  file_.reset();
  std::error_code ignored;
  for (const std::string& path : paths_) fs::remove(path, ignored);
  if (made_folder_) fs::remove(folder_, ignored);
}

void ShardWriter::open_shard() {
  paths_.push_back(shard_path(folder_, paths_.size()));
  file_ = std::make_unique<FileWriter>(paths_.back());
  const Header header;
  file_->write(std::as_bytes(std::span(&header, 1)));
  n_tokens_ = text_bytes_ = 0;
  starts_.clear();
}

void ShardWriter::begin_document() {
  if (file_ != nullptr && n_tokens_ >= shard_tokens_) close_shard(false);
  if (file_ == nullptr) open_shard();
  starts_.push_back(static_cast<std::uint64_t>(n_tokens_));
}

void ShardWriter::write(std::span<const std::int32_t> ids, std::int64_t text_bytes) {
  if (starts_.empty()) throw InternalError(folder_, "tokens before a document begins");
  encoded_.resize(ids.size() * id_bytes_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= info_.vocab_size) {
      throw BadInput(folder_, "expected ids from 0 to {}, got {}", info_.vocab_size - 1, ids[i]);
    }
    std::memcpy(encoded_.data() + i * id_bytes_, &ids[i], id_bytes_);  // little-endian: the low bytes come first
  }
  file_->write(encoded_);
  n_tokens_ += static_cast<std::int64_t>(ids.size());
  text_bytes_ += text_bytes;
}

void ShardWriter::close_shard(bool is_last) {
  const auto bytes = static_cast<std::size_t>(n_tokens_) * id_bytes_;
  const std::array<std::byte, 8> zeros = {};
  file_->write(std::span(zeros).first((8 - bytes % 8) % 8));
  file_->write(std::as_bytes(std::span(starts_)));
  Header header;
  header.id_bytes = static_cast<std::uint32_t>(id_bytes_);
  header.vocab_size = static_cast<std::uint64_t>(info_.vocab_size);
  header.fingerprint = info_.fingerprint;
  if (info_.document_token) header.document_token = static_cast<std::uint64_t>(*info_.document_token);
  header.tokens = static_cast<std::uint64_t>(n_tokens_);
  header.documents = starts_.size();
  header.text_bytes = static_cast<std::uint64_t>(text_bytes_);
  header.number = static_cast<std::uint32_t>(paths_.size() - 1);
  header.is_last = is_last ? 1 : 0;
  file_->write_at(0, std::as_bytes(std::span(&header, 1)));
  file_->commit();
  file_.reset();
}

void ShardWriter::finish() {
  if (file_ == nullptr) throw BadInput(folder_, "expected text to pack, but the corpus has none");
  close_shard(true);
  finished_ = true;
}

std::uint64_t TokenShards::Shard::start(std::int64_t n) const {
  std::uint64_t value = 0;
  std::memcpy(&value, file->bytes().data() + starts_at + static_cast<std::size_t>(n) * 8, 8);
  return value;
}

void TokenShards::add(const std::string& path, bool& is_last) {
  Shard shard;
  shard.file = MappedFile::open(path);
  Header h;
  const auto bytes = shard.file->bytes();
  if (bytes.size() < sizeof(Header))
    throw BadCheckpoint(path, "expected at least {} bytes, got {}", sizeof h, bytes.size());
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != Header().magic) throw BadCheckpoint(path, "expected a shard of tokens (VITRTOKS), got something else");
  if (h.version != 1) throw Unsupported(path, "expected version 1 of the format, got {}", h.version);
  if (h.vocab_size == 0 || h.vocab_size > kMaxIds ||
      h.id_bytes != id_bytes_for(static_cast<std::int64_t>(h.vocab_size))) {
    throw BadCheckpoint(path, "the header contradicts itself: {} ids of {} bytes", h.vocab_size, h.id_bytes);
  }
  if (h.document_token != Header::kNone && h.document_token >= h.vocab_size) {
    throw BadCheckpoint(path, "documents begin with id {}, but the vocabulary has {}", h.document_token, h.vocab_size);
  }
  if (h.number != shards_.size())
    throw BadCheckpoint(path, "expected shard number {}, got {}", shards_.size(), h.number);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 64);
  if (h.tokens == 0 || h.tokens > kMax || h.documents == 0 || h.documents > h.tokens || h.text_bytes > kMax) {
    throw BadCheckpoint(path, "invalid header: {} tokens, {} documents, {} bytes", h.tokens, h.documents, h.text_bytes);
  }
  shard.begin = tokens_;
  shard.tokens = static_cast<std::int64_t>(h.tokens);
  shard.documents = static_cast<std::int64_t>(h.documents);
  const std::int64_t id_bytes = shard.tokens * static_cast<std::int64_t>(h.id_bytes);
  shard.starts_at = sizeof(Header) + static_cast<std::size_t>(round_up(id_bytes, 8));
  const std::size_t expected = shard.starts_at + static_cast<std::size_t>(shard.documents) * 8;
  if (bytes.size() != expected)
    throw BadCheckpoint(path, "expected {} bytes according to the header, got {}", expected, bytes.size());
  if (shard.start(0) != 0) throw BadCheckpoint(path, "expected the first document at 0, got {}", shard.start(0));

  TokenInfo info{static_cast<std::int64_t>(h.vocab_size), h.fingerprint, std::nullopt};
  if (h.document_token != Header::kNone) info.document_token = static_cast<std::int32_t>(h.document_token);
  if (shards_.empty()) info_ = info;
  id_bytes_ = h.id_bytes;
  const bool is_same = info.vocab_size == info_.vocab_size && info.fingerprint == info_.fingerprint &&
                       info.document_token == info_.document_token;
  if (!is_same) throw BadCheckpoint(path, "its tokenizer differs from that of the first shard");
  const auto total = checked_add(tokens_, shard.tokens),
             text = checked_add(text_bytes_, static_cast<std::int64_t>(h.text_bytes));
  if (!total || !text) throw BadCheckpoint(path, "expected fewer than 2^63 tokens in all");
  tokens_ = *total;
  text_bytes_ = *text;
  documents_ += shard.documents;
  is_last = h.is_last == 1;
  shards_.push_back(std::move(shard));
}

TokenShards TokenShards::open(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(shard_path(folder, 0), error)) {
    throw BadInput(folder, "expected a folder with shard-00000.tokens (vitrine data pack makes one)");
  }
  TokenShards all;
  all.folder_ = folder;
  for (bool is_last = false; !is_last;) {
    const std::string path = shard_path(folder, all.shards_.size());
    if (!all.shards_.empty() && !fs::exists(path, error)) {
      throw BadCheckpoint(folder, "the last shard is missing: there is no {}", fs::path(path).filename().string());
    }
    if (all.shards_.size() == kMaxShards) throw BadCheckpoint(folder, "expected at most {} shards", kMaxShards);
    all.add(path, is_last);
  }
  return all;
}

std::size_t TokenShards::shard_of(std::int64_t place) const {
  const auto next = std::upper_bound(shards_.begin(), shards_.end(), place,
                                     [](std::int64_t p, const Shard& shard) { return p < shard.begin; });
  return static_cast<std::size_t>(next - shards_.begin()) - 1;
}

void TokenShards::check_range(std::int64_t begin, std::int64_t end) const {
  if (begin >= 0 && begin <= end && end <= tokens_) return;
  throw BadInput(folder_, "expected places from 0 to {}, got {} to {}", tokens_, begin, end);
}

void TokenShards::read(std::int64_t begin, std::span<std::int32_t> ids) const {
  check_range(begin, begin + static_cast<std::int64_t>(ids.size()));
  for (std::size_t n = ids.empty() ? 0 : shard_of(begin); !ids.empty(); ++n) {
    const Shard& shard = shards_[n];
    const std::int64_t from = begin - shard.begin;
    const auto count = std::min(ids.size(), static_cast<std::size_t>(shard.tokens - from));
    const std::byte* bytes = shard.file->bytes().data() + sizeof(Header) + static_cast<std::size_t>(from) * id_bytes_;
    if (id_bytes_ == 2) {
      copy_ids<std::uint16_t>(bytes, ids.first(count));
    } else {
      copy_ids<std::uint32_t>(bytes, ids.first(count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] < 0 || ids[i] >= info_.vocab_size) {
        throw BadCheckpoint(shard.file->path(), "expected ids from 0 to {}, got {} as token {}", info_.vocab_size - 1,
                            static_cast<std::uint32_t>(ids[i]), from + static_cast<std::int64_t>(i));
      }
    }
    begin += static_cast<std::int64_t>(count);
    ids = ids.subspan(count);
  }
}

std::vector<std::int64_t> TokenShards::document_starts(std::int64_t begin, std::int64_t end) const {
  check_range(begin, end);
  std::vector<std::int64_t> starts;
  for (std::size_t n = begin < end ? shard_of(begin) : shards_.size(); n < shards_.size(); ++n) {
    const Shard& shard = shards_[n];
    if (shard.begin >= end) break;
    const auto from = static_cast<std::uint64_t>(std::max<std::int64_t>(begin - shard.begin, 0));
    const auto to = static_cast<std::uint64_t>(std::min(end - shard.begin, shard.tokens));
    std::int64_t low = 0, high = shard.documents;  // the first start at or after `from`
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (shard.start(middle) < from) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    for (std::uint64_t least = from; low < shard.documents; ++low) {
      const std::uint64_t start = shard.start(low);
      if (start < least || start >= static_cast<std::uint64_t>(shard.tokens)) {
        throw BadCheckpoint(shard.file->path(), "expected document {} to begin at token {} or later, below {}, got {}",
                            low, least, shard.tokens, start);
      }
      if (start >= to) break;
      starts.push_back(shard.begin + static_cast<std::int64_t>(start));
      least = start + 1;
    }
  }
  return starts;
}

}  // namespace vitrine
