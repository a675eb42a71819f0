#include "train/distributed/batch_part.h"

namespace vitrine {

BatchPart part_of(const Batch& batch, std::int64_t i, std::int64_t n) {
  const bool has_sources = !batch.source_pieces.empty();
  const bool by_piece = has_sources || batch.is_ragged;
  const auto n_rows = static_cast<std::int64_t>(batch.inputs.size());
  const auto n_pieces = static_cast<std::int64_t>(batch.pieces.size());
  std::vector<std::int64_t> example_of;  // by piece
  for (std::size_t e = 0; e < batch.examples.size(); ++e) {
    example_of.insert(example_of.end(), static_cast<std::size_t>(batch.examples[e].n_pieces),
                      static_cast<std::int64_t>(e));
  }
  const auto n_examples = static_cast<std::int64_t>(batch.examples.size());
  const auto is_in_part = [&](std::int64_t piece) {
    if (n_examples > 0) return example_of[static_cast<std::size_t>(piece)] * n / n_examples == i;
    if (by_piece) return piece * n / n_pieces == i;
    return batch.pieces[static_cast<std::size_t>(piece)].first_row / (n_rows / n) == i;
  };
  BatchPart part;
  std::int64_t rows = 0, source_rows = 0, first = 0, first_source = 0;
  for (std::int64_t piece = 0; piece < n_pieces; ++piece) {
    if (!is_in_part(piece)) continue;
    const Batch::Piece& own = batch.pieces[static_cast<std::size_t>(piece)];
    if (rows == 0) {
      first = own.first_row;
      part.first_piece = static_cast<std::size_t>(piece);
    }
    part.segments.push_back({rows, own.length});
    rows += own.length;
    if (!has_sources) continue;
    const Batch::Piece& source = batch.source_pieces[static_cast<std::size_t>(piece)];
    if (source_rows == 0) first_source = source.first_row;
    part.segments.back().source = static_cast<int>(part.sources.size());
    part.sources.push_back({source_rows, source.length});
    source_rows += source.length;
  }
  const auto begin = static_cast<std::size_t>(first), count = static_cast<std::size_t>(rows);
  part.inputs = std::span(batch.inputs).subspan(begin, count);
  part.targets = std::span(batch.targets).subspan(begin, count);
  part.weights.assign(batch.counts.begin() + first, batch.counts.begin() + first + rows);
  part.source_ids =
      std::span(batch.sources).subspan(static_cast<std::size_t>(first_source), static_cast<std::size_t>(source_rows));
  if (!batch.types.empty()) part.types = std::span(batch.types).subspan(begin, count);
  if (n_examples > 0) {
    const std::int64_t from = (i * n_examples + n - 1) / n, to = ((i + 1) * n_examples + n - 1) / n;
    part.examples =
        std::span(batch.examples).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
  }
  return part;
}

}  // namespace vitrine
