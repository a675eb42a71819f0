#include "data/pairs.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "data/pack.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRoundLines = 4096;
constexpr std::int64_t kShardTokens = std::int64_t{1} << 27;

std::string side(const std::string& folder, const char* name) { return (fs::path(folder) / name).string(); }

/// The lines of a file, without their ends.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(MappedFile::open_or_read(path)), rest_(file_->text()) {}

  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
  std::int64_t bytes_left() const { return static_cast<std::int64_t>(rest_.size()); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::string_view rest_;
};

/// Two lines and their ids.
struct Encoded {
  std::string_view source, target;
  std::vector<std::int32_t> source_ids, target_ids;
};

}  // namespace

std::vector<std::int32_t> target_ids(const Tokenizer& tokenizer, std::int32_t end, std::string_view line) {
  std::vector<std::int32_t> ids = tokenizer.encode(line, SpecialTokens::apply);
  if (ids.empty() || ids.back() != end) ids.push_back(end);
  return ids;
}

PackedPairs pack_pairs(const std::string& source, const std::string& target, const Tokenizer& tokenizer,
                       const Tokenizer& target_tokenizer, const std::string& folder, ThreadPool& pool,
                       const ReportProgress& report) {
  const std::optional<std::int32_t> end = end_token_of(target_tokenizer);
  if (!end)
    throw BadInput("tokenizer", "the tokenizer of the target has no special token that ends a text, such as </s>");
  const auto info = [](const Tokenizer& t) { return TokenInfo{t.vocab_size(), tokenizer_fingerprint(t), {}}; };
  Lines sources(source), targets(target);
  const std::int64_t total = sources.bytes_left();
  ShardWriter source_writer(side(folder, "source"), info(tokenizer), kShardTokens);
  ShardWriter target_writer(side(folder, "target"), info(target_tokenizer), kShardTokens);
  PackedPairs packed;
  std::int64_t line = 0;
  for (std::vector<Encoded> round(kRoundLines); round.size() == kRoundLines;) {
    std::size_t n = 0;
    for (; n < kRoundLines; ++n, ++line) {
      const bool has_source = sources.next(round[n].source), has_target = targets.next(round[n].target);
      if (has_source != has_target) {
        throw BadInput(has_source ? target : source, "it has {} lines, fewer than {}", line,
                       has_source ? source : target);
      }
      if (!has_source) break;
    }
    round.resize(n);
    pool.parallel_for(static_cast<std::int64_t>(n), 16, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) {
        Encoded& pair = round[static_cast<std::size_t>(i)];
        pair.source_ids = tokenizer.encode(pair.source, SpecialTokens::apply);
        pair.target_ids = target_ids(target_tokenizer, *end, pair.target);
      }
    });
    for (const Encoded& pair : round) {
      if (pair.source.empty() || pair.target.empty() || pair.source_ids.empty()) {
        ++packed.empty;
        continue;
      }
      source_writer.begin_document();
      source_writer.write(pair.source_ids, static_cast<std::int64_t>(pair.source.size()));
      target_writer.begin_document();
      target_writer.write(pair.target_ids, static_cast<std::int64_t>(pair.target.size()));
      ++packed.pairs;
      packed.source_tokens += static_cast<std::int64_t>(pair.source_ids.size());
      packed.target_tokens += static_cast<std::int64_t>(pair.target_ids.size());
    }
    if (report) report(total - sources.bytes_left(), total);
  }
  source_writer.finish();
  target_writer.finish();
  return packed;
}

bool is_pair_folder(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(side(folder, "source"), error) && fs::is_directory(side(folder, "target"), error);
}

/// The pairs of a folder that a run uses.
struct PairCorpus::Part {
  TokenShards source, target;
  std::vector<std::int64_t> source_starts, target_starts;  // and the ends of the last documents
  std::vector<std::int64_t> pairs;                         // that are not too long
  std::int64_t left_out = 0;

  Part(const std::string& folder, std::int64_t longest)
      : source(TokenShards::open(side(folder, "source"))), target(TokenShards::open(side(folder, "target"))) {
    if (source.documents() != target.documents()) {
      throw BadCheckpoint(folder, "expected as many sources as targets, got {} and {}", source.documents(),
                          target.documents());
    }
    source_starts = starts_of(source);
    target_starts = starts_of(target);
    for (std::int64_t i = 0; i < source.documents(); ++i) {
      const bool fits = length(source_starts, i) <= longest && length(target_starts, i) <= longest;
      if (fits) pairs.push_back(i);
      left_out += fits ? 0 : 1;
    }
  }

  static std::vector<std::int64_t> starts_of(const TokenShards& shards) {
    std::vector<std::int64_t> starts = shards.document_starts(0, shards.tokens());
    starts.push_back(shards.tokens());
    return starts;
  }
  static std::int64_t length(const std::vector<std::int64_t>& starts, std::int64_t i) {
    return starts[static_cast<std::size_t>(i) + 1] - starts[static_cast<std::size_t>(i)];
  }
  static std::vector<std::int32_t> read(const TokenShards& shards, const std::vector<std::int64_t>& starts,
                                        std::int64_t i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length(starts, i)));
    shards.read(starts[static_cast<std::size_t>(i)], ids);
    return ids;
  }
  std::int64_t size() const { return static_cast<std::int64_t>(pairs.size()); }
};

PairCorpus::PairCorpus(const std::string& train, const std::string& validation, const DatasetOptions& options,
                       std::int32_t start_id)
    : training_(std::make_unique<Part>(train, options.sequence)), options_(options), start_id_(start_id) {
  if (!validation.empty()) {
    held_out_ = std::make_unique<Part>(validation, options.sequence);
    if (held_out_->target.info().fingerprint != info().fingerprint ||
        held_out_->source.info().fingerprint != source_info()->fingerprint) {
      throw BadInput(validation, "its tokens come from a different tokenizer than those in {}", train);
    }
  } else if (options.validation > 0) {
    held_out_ = std::make_unique<Part>(train, options.sequence);
    const auto n = static_cast<std::int64_t>(static_cast<double>(training_->size()) * (1 - options.validation));
    training_->pairs.resize(static_cast<std::size_t>(n));
    held_out_->pairs.erase(held_out_->pairs.begin(), held_out_->pairs.begin() + n);
  }
  if (training_->pairs.empty() || (held_out_ && held_out_->pairs.empty())) {
    throw BadInput(train, "expected pairs of at most {} tokens to train and to validate on, got none",
                   options.sequence);
  }
}

PairCorpus::~PairCorpus() = default;

Batch PairCorpus::batch_of(const Part& part, std::span<const std::int64_t> pairs) const {
  Batch batch;
  for (const std::int64_t pair : pairs) {
    const std::vector<std::int32_t> source = Part::read(part.source, part.source_starts, pair);
    const std::vector<std::int32_t> target = Part::read(part.target, part.target_starts, pair);
    batch.source_pieces.push_back(
        {static_cast<std::int64_t>(batch.sources.size()), static_cast<std::int64_t>(source.size())});
    batch.sources.insert(batch.sources.end(), source.begin(), source.end());
    batch.pieces.push_back({static_cast<std::int64_t>(batch.inputs.size()), static_cast<std::int64_t>(target.size())});
    batch.inputs.push_back(start_id_);
    batch.inputs.insert(batch.inputs.end(), target.begin(), target.end() - 1);
    batch.targets.insert(batch.targets.end(), target.begin(), target.end());
  }
  batch.counts.assign(batch.inputs.size(), 1);
  return batch;
}

Batch PairCorpus::batch(std::int64_t step) const {
  const auto first = checked_mul(step, options_.batch);
  if (step < 0 || !first || !checked_add(*first, options_.batch)) throw BadInput("data", "there is no step {}", step);
  const std::int64_t n = training_->size();
  std::vector<std::int64_t> pairs;
  for (std::int64_t sample = *first; sample < *first + options_.batch; ++sample) {
    const auto place = permuted(static_cast<std::uint64_t>(sample % n), static_cast<std::uint64_t>(n), options_.seed,
                                static_cast<std::uint64_t>(sample / n));
    pairs.push_back(training_->pairs[place]);
  }
  return batch_of(*training_, pairs);
}

std::int64_t PairCorpus::validation_batches() const {
  return held_out_ ? (held_out_->size() + options_.batch - 1) / options_.batch : 0;
}

Batch PairCorpus::validation_batch(std::int64_t index) const {
  if (index < 0 || index >= validation_batches()) {
    throw BadInput("data", "expected validation batches from 0 to {}, got {}", validation_batches() - 1, index);
  }
  const std::int64_t first = index * options_.batch, n = std::min(options_.batch, held_out_->size() - first);
  return batch_of(*held_out_,
                  std::span(held_out_->pairs).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
}

const TokenInfo& PairCorpus::info() const { return training_->target.info(); }
const TokenInfo* PairCorpus::source_info() const { return &training_->source.info(); }
std::int64_t PairCorpus::training_pairs() const { return training_->size(); }
std::int64_t PairCorpus::left_out() const { return training_->left_out; }

std::int64_t PairCorpus::training_tokens() const {
  return std::accumulate(
      training_->pairs.begin(), training_->pairs.end(), std::int64_t{0},
      [&](std::int64_t sum, std::int64_t i) { return sum + Part::length(training_->target_starts, i); });
}

double PairCorpus::tokens_per_byte() const {
  const TokenShards& from = (held_out_ ? held_out_ : training_)->target;
  return static_cast<double>(from.tokens()) / static_cast<double>(from.text_bytes());
}

}  // namespace vitrine
