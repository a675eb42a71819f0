#include "train/dictionary/activation_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "inspect/text_pass.h"
#include "train/distributed/batch_part.h"

namespace vitrine {
namespace {

constexpr std::int64_t kRowsAtOnce = 1024;  // of the buffer, allocated at a time

MixingOptions mixing_of(const ActivationStreamOptions& o) {
  const ActivationOptions& a = o.activations;
  return {o.batch, a.sequences * a.context, a.buffer, a.mix_fraction, a.is_shuffled, o.seed};
}

}  // namespace

ActivationStream::ActivationStream(const Model& model, const TrainingData& corpus, ActivationStreamOptions options,
                                   std::vector<std::int64_t> widths, ThreadPool& pool, const Kernels& kernels,
                                   const std::atomic<bool>* interrupt, CallerPoll* poll)
    : model_(model),
      corpus_(corpus),
      options_(std::move(options)),
      widths_(std::move(widths)),
      pool_(pool),
      kernels_(kernels),
      interrupt_(interrupt),
      poll_(poll),
      order_(mixing_of(options_)) {}

std::string ActivationStream::plan() const {
  return fmt::format("{} activations of a pass, shuffled among {}",
                     options_.activations.sequences * options_.activations.context, options_.activations.buffer);
}

/// Memory for a row that waits.
float* ActivationStream::place_of(std::int64_t row) {
  if (free_.empty()) {
    const std::int64_t size = row_size();
    blocks_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(kRowsAtOnce * size)));
    for (std::int64_t i = kRowsAtOnce; i-- > 0;) free_.push_back(blocks_.back().get() + i * size);
  }
  float* const place = free_.back();
  free_.pop_back();
  places_[row] = place;
  return place;
}

/// Computes the wanted rows of a pass, and keeps them.
void ActivationStream::compute(std::int64_t pass_number, const std::vector<bool>& is_wanted) {
  const Batch batch = corpus_.batch(pass_number);
  const std::int64_t first_row = pass_number * options_.activations.sequences * options_.activations.context;
  // Samples without a wanted row are left out.
  Batch needed;
  std::vector<std::int64_t> rows;  // of the pass, in the order of `needed`
  for (const Batch::Piece& piece : batch.pieces) {
    const auto begin = is_wanted.begin() + piece.first_row;
    if (std::find(begin, begin + piece.length, true) == begin + piece.length) continue;
    needed.pieces.push_back({std::ssize(rows), piece.length});
    for (std::int64_t i = 0; i < piece.length; ++i) {
      rows.push_back(piece.first_row + i);
      needed.inputs.push_back(batch.inputs[static_cast<std::size_t>(piece.first_row + i)]);
    }
  }
  needed.targets = needed.inputs;
  needed.counts.assign(needed.inputs.size(), 0);
  needed.is_ragged = true;
  if (rows.empty()) return;
  std::vector<float*> places(rows.size(), nullptr);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_wanted[static_cast<std::size_t>(rows[i])]) places[i] = place_of(first_row + rows[i]);
  }
  SiteReader reader(options_.sites, [&](Pass& p, const SiteId& id, const Tensor& value) {
    const auto at = std::ranges::find(options_.sites, id) - options_.sites.begin();
    std::int64_t offset = 0;
    for (std::ptrdiff_t i = 0; i < at; ++i) offset += widths_[static_cast<std::size_t>(i)];
    p.for_rows(value.rows(), value.row_size(), [&](std::int64_t t) {
      float* const place = places[static_cast<std::size_t>(t)];
      if (place != nullptr) std::copy_n(value.row(t), value.row_size(), place + offset);
    });
  });
  const ArenaScope scope(arena_);
  const BatchPart part = part_of(needed, 0, 1);
  Pass pass{{.pool = pool_,
             .kernels = kernels_,
             .arena = arena_,
             .interrupt = interrupt_,
             .compute = Compute::f32,
             .poll = poll_},
            part.segments};
  pass.taps = &reader;
  model_.forward(pass, part.tokens());
}

/// Repeats the order up to a step, and computes the rows that wait then.
void ActivationStream::begin_at(std::int64_t step) {
  order_ = MixingOrder(mixing_of(options_));
  for (const auto& [row, place] : places_) free_.push_back(place);
  places_.clear();
  for (std::int64_t i = 0; i < step; ++i) order_.next();
  next_step_ = step;
  computed_ = order_.passes();
  const std::int64_t n = options_.activations.sequences * options_.activations.context;
  std::vector<std::int64_t> waiting = order_.waiting();
  std::ranges::sort(waiting);
  for (auto it = waiting.begin(); it != waiting.end();) {
    const std::int64_t pass = *it / n;
    std::vector<bool> is_wanted(static_cast<std::size_t>(n));
    for (; it != waiting.end() && *it / n == pass; ++it) is_wanted[static_cast<std::size_t>(*it % n)] = true;
    compute(pass, is_wanted);
  }
}

void ActivationStream::read(std::int64_t step, const Tensor& rows) {
  if (step != next_step_) begin_at(step);
  const std::vector<std::int64_t> chosen = order_.next();
  const std::int64_t n = options_.activations.sequences * options_.activations.context;
  next_step_ = -1;  // unless what follows succeeds
  for (; computed_ < order_.passes(); ++computed_)
    compute(computed_, std::vector<bool>(static_cast<std::size_t>(n), true));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto it = places_.find(chosen[i]);
    std::copy_n(it->second, rows.row_size(), rows.row(static_cast<std::int64_t>(i)));
    free_.push_back(it->second);
    places_.erase(it);
  }
  next_step_ = step + 1;
}

}  // namespace vitrine
