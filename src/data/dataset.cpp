#include "data/dataset.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/error.h"
#include "base/rng.h"

namespace vitrine {

namespace {

constexpr std::int64_t kMaxSequence = std::int64_t{1} << 24;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 20;
constexpr int kRounds = 6;
constexpr std::uint64_t kShiftStream = 0x73686966740A;  // separate from the random numbers of the order

}  // namespace

std::int64_t Batch::n_counted() const { return std::count(counts.begin(), counts.end(), std::uint8_t{1}); }

std::int64_t Batch::n_pieces(std::int64_t parts) const {
  if (!examples.empty()) {
    const auto n = static_cast<std::size_t>((std::ssize(examples) + parts - 1) / parts);
    return n < examples.size() ? examples[n].first_piece : std::ssize(pieces);
  }
  if (!source_pieces.empty() || is_ragged) return (static_cast<std::int64_t>(pieces.size()) + parts - 1) / parts;
  const std::int64_t rows = static_cast<std::int64_t>(inputs.size()) / parts;
  return std::count_if(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.first_row < rows; });
}

std::uint64_t permuted(std::uint64_t place, std::uint64_t n, std::uint64_t key, std::uint64_t number) {
  const auto half = static_cast<int>((std::bit_width(n - 1) + 1) / 2);  // bits of each half: up to 32
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = place >> half, right = place & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const auto mixed = philox({static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(number),
                                 static_cast<std::uint32_t>(number >> 32)},
                                {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
      left ^= mixed[0] & mask;
      std::swap(left, right);
    }
    place = left << half | right;
  } while (place >= n);
  return place;
}

Dataset::Dataset(const TokenShards& shards, const DatasetOptions& options, std::int64_t vocab_size)
    : shards_(&shards), options_(options) {
  const TokenInfo& info = shards.info();
  if (info.vocab_size > vocab_size) {
    throw BadInput("data", "the corpus has ids up to {}, but the model has only {} tokens", info.vocab_size - 1,
                   vocab_size);
  }
  if (options.sequence < 1 || options.sequence > kMaxSequence) {
    throw BadInput("data", "expected a sequence of 1 to {} tokens, got {}", kMaxSequence, options.sequence);
  }
  if (options.batch < 1 || options.batch > kMaxBatch) {
    throw BadInput("data", "expected a batch of 1 to {} samples, got {}", kMaxBatch, options.batch);
  }
  if (!(options.validation >= 0 && options.validation <= 1)) {
    throw BadInput("data", "expected a validation part from 0 to 1, got {}", options.validation);
  }
  if (options.mask_documents && !info.document_token && shards.documents() == shards.tokens()) {
    throw BadInput("data", "every document has a single token: with mask_documents there is nothing to predict");
  }
  train_tokens_ = validation_begin(options.validation);
  const std::int64_t places = std::max<std::int64_t>(train_tokens_ - 1, 0);  // places of inputs
  windows_ = places / options.sequence;
  if (windows_ < 1 && options.validation < 1) {
    throw BadInput("data", "expected at least {} tokens to train on (a sample and its last target), got {}",
                   options.sequence + 1, train_tokens_);
  }
  if (windows_ >= 8) --windows_;  // so that an epoch can begin anywhere in the first window
  shifts_ = std::min(options.sequence, places - windows_ * options.sequence + 1);
  if (options.validation > 0 && shards.tokens() <= options.sequence) {
    throw BadInput("data", "expected at least {} tokens to validate on (a sample and its last target), got {}",
                   options.sequence + 1, shards.tokens());
  }
  if (options.validation > 0 && validation_tokens() < 2) {
    throw BadInput("data", "expected at least two tokens for validation, got {}", validation_tokens());
  }
}

/// The start of the document nearest to the place that `part` gives, if one is near; else that place.
std::int64_t Dataset::validation_begin(double part) const {
  const std::int64_t all = shards_->tokens();
  if (part == 0) return all;
  if (part == 1) return 0;
  const auto wanted = static_cast<std::int64_t>(static_cast<double>(all) * (1 - part));
  const auto reach = static_cast<std::int64_t>(static_cast<double>(all) * std::min(part, 1 - part) / 2);
  for (std::int64_t near = std::min<std::int64_t>(reach, 1024);; near = std::min(reach, near * 16)) {
    const auto starts =
        shards_->document_starts(std::max<std::int64_t>(wanted - near, 1), std::min(wanted + near + 1, all));
    const auto distance = [&](std::int64_t start) { return std::abs(start - wanted); };
    const auto nearest = std::min_element(starts.begin(), starts.end(),
                                          [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); });
    if (nearest != starts.end()) return *nearest;
    if (near == reach) return wanted;
  }
}

std::int64_t Dataset::place_of(std::int64_t sample) const {
  if (sample < 0) throw BadInput("data", "expected samples from 0, got {}", sample);
  const std::int64_t epoch = sample / windows_;
  const auto window = permuted(static_cast<std::uint64_t>(sample % windows_), static_cast<std::uint64_t>(windows_),
                               options_.seed, static_cast<std::uint64_t>(epoch));
  const double draw = uniform(options_.seed, kShiftStream, static_cast<std::uint64_t>(epoch));
  const auto shift = static_cast<std::int64_t>(draw * static_cast<double>(shifts_));
  return shift + static_cast<std::int64_t>(window) * options_.sequence;
}

Batch Dataset::batch(std::int64_t step) const {
  const auto first = checked_mul(step, options_.batch);
  if (!first || !checked_add(*first, options_.batch)) throw BadInput("data", "there is no step {}", step);
  return samples(*first, options_.batch);
}

Batch Dataset::samples(std::int64_t first, std::int64_t count) const {
  Batch batch;
  for (std::int64_t s = first; s < first + count; ++s) append(place_of(s), 0, batch);
  return batch;
}

/// The sample that begins at `begin`; its first `not_counted` targets do not count.
void Dataset::append(std::int64_t begin, std::int64_t not_counted, Batch& batch) const {
  const std::int64_t length = options_.sequence;
  const auto first_row = static_cast<std::int64_t>(batch.inputs.size());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length) + 1);
  shards_->read(begin, ids);
  batch.inputs.insert(batch.inputs.end(), ids.begin(), ids.end() - 1);
  batch.targets.insert(batch.targets.end(), ids.begin() + 1, ids.end());
  batch.counts.insert(batch.counts.end(), static_cast<std::size_t>(not_counted), 0);
  batch.counts.resize(batch.inputs.size(), 1);
  std::int64_t piece = first_row;
  if (options_.mask_documents) {
    for (const std::int64_t start : shards_->document_starts(begin + 1, begin + length + 1)) {
      const std::int64_t row = first_row + start - begin;
      if (!shards_->info().document_token) batch.counts[static_cast<std::size_t>(row - 1)] = 0;
      if (start == begin + length) break;
      batch.pieces.push_back({piece, row - piece});
      piece = row;
    }
  }
  batch.pieces.push_back({piece, first_row + length - piece});
}

std::int64_t Dataset::validation_windows() const {
  const std::int64_t targets = validation_tokens() - 1;
  return targets < 1 ? 0 : (targets + options_.sequence - 1) / options_.sequence;
}

std::int64_t Dataset::validation_batches() const {
  return (validation_windows() + options_.batch - 1) / options_.batch;
}

Batch Dataset::validation_batch(std::int64_t index) const {
  if (index < 0 || index >= validation_batches()) {
    throw BadInput("data", "expected validation batches from 0 to {}, got {}", validation_batches() - 1, index);
  }
  Batch batch;
  const std::int64_t end = std::min((index + 1) * options_.batch, validation_windows());
  for (std::int64_t window = index * options_.batch; window < end; ++window) {
    const std::int64_t wanted = train_tokens_ + window * options_.sequence;
    const std::int64_t begin =
        std::min(wanted, shards_->tokens() - 1 - options_.sequence);  // a whole sample, which may overlap
    append(begin, wanted - begin, batch);
  }
  return batch;
}

namespace {

DatasetOptions with_validation(DatasetOptions options, double part) {
  options.validation = part;
  return options;
}

}  // namespace

SplitCorpus::SplitCorpus(const std::string& train, const std::string& validation, const DatasetOptions& options,
                         std::int64_t vocab_size)
    : shards_(TokenShards::open(train)),
      training_(shards_, validation.empty() ? options : with_validation(options, 0), vocab_size) {
  if (validation.empty()) return;
  validation_shards_.emplace(TokenShards::open(validation));
  if (validation_shards_->info().fingerprint != shards_.info().fingerprint) {
    throw BadInput(validation, "its tokens come from a different tokenizer than those in {}", train);
  }
  validation_.emplace(*validation_shards_, with_validation(options, 1), vocab_size);
}

const Dataset* SplitCorpus::held_out() const {
  if (validation_) return &*validation_;
  return training_.validation_tokens() > 0 ? &training_ : nullptr;
}

std::int64_t SplitCorpus::validation_batches() const {
  return held_out() != nullptr ? held_out()->validation_batches() : 0;
}

double SplitCorpus::tokens_per_byte() const {
  const TokenShards& from = held_out_shards();
  return static_cast<double>(from.tokens()) / static_cast<double>(from.text_bytes());
}

}  // namespace vitrine
