// Which rank adds, and may keep, which elements of the parameters.
//
// Parameters, gradients and moments have the same places: element i of a parameter that begins at place p is at p + i
// (kParamAlignment). The parameters of a block form a bucket, those before, between and after the blocks others. Each
// bucket is cut into one slice per rank, at the ends of the optimizer's chunks, so that a bucket whose gradients are
// ready keeps all ranks busy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/trainable.h"

namespace vitrine {

/// A range of places.
struct Places {
  std::int64_t first = 0, end = 0;

  std::int64_t size() const { return end - first; }
};

class Slices {
 public:
  Slices(std::span<const TrainParam> params, int n_ranks);

  /// The number of buckets, in the order of the parameters.
  std::size_t buckets() const { return cuts_.size(); }
  Places bucket(std::size_t b) const { return {cuts_[b].front(), cuts_[b].back()}; }
  Places slice(std::size_t b, int rank) const {
    return {cuts_[b][static_cast<std::size_t>(rank)], cuts_[b][static_cast<std::size_t>(rank) + 1]};
  }
  /// The bucket of a block; of an encoder–decoder, of the decoder's.
  std::optional<std::size_t> bucket_of_layer(int layer) const;

 private:
  std::vector<std::string> blocks_;              // of each bucket: "blocks.3" or the like, or ""
  std::vector<std::vector<std::int64_t>> cuts_;  // of each bucket: where the slices begin, and the end
};

}  // namespace vitrine
