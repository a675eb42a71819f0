// In which order the rows of a stream become batches, as in SAELens: rows are appended to a buffer until it is full;
// then all are shuffled, a fraction stays, and the others are served. The order is a pure function of the options, so a
// resumed run repeats it without the rows.
#pragma once

#include <cstdint>
#include <vector>

namespace vitrine {

struct MixingOptions {
  std::int64_t batch = 1;   ///< Rows that are served at a time.
  std::int64_t pass = 1;    ///< Rows that are appended at a time.
  std::int64_t buffer = 1;  ///< Rows of a full buffer, at least a batch.
  double mix_fraction = 0.5;
  bool is_shuffled = true;  ///< Else rows are served in their order.
  std::uint64_t seed = 0;
};

class MixingOrder {
 public:
  explicit MixingOrder(const MixingOptions& options) : options_(options) {}

  /// The rows of the next batch, counted from the beginning of the stream.
  std::vector<std::int64_t> next();
  /// How many passes next() has appended so far.
  std::int64_t passes() const { return passes_; }
  /// The rows that have been appended and not served.
  const std::vector<std::int64_t>& waiting() const { return rows_; }

 private:
  void fill();

  MixingOptions options_;
  std::vector<std::int64_t> rows_{};  // those to be served next are the last, in falling order
  std::int64_t to_serve_ = 0;
  std::int64_t passes_ = 0, fills_ = 0;
};

}  // namespace vitrine
