// A model's pass over a window of a text, whose logits are computed group by group from its last states, so that they
// never exist all at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/context.h"

namespace vitrine {

/// How many rows of logits to hold at a time: 16 MiB of one model.
std::int64_t rows_of_logits_at_once(const ModelConfig& config);

class WindowRun {
 public:
  /// Keeps `ids`. Throws as text_pass(), and Unsupported for layers without a stream.
  WindowRun(const GenerateContext& context, std::span<const std::int32_t> ids);

  /// Reads the window in chunks of the context's size. `taps`, if not null, see all passes; the row of a value in the
  /// window is its row in the pass plus the position of the pass's segment. Throws what a forward throws, NotFinite.
  void run(Taps* taps = nullptr);

  /// The logits of rows [first, first + n) of the window, in the run's arena; after run().
  Tensor logits(std::int64_t first, std::int64_t n);
  Arena& arena() { return arena_; }

 private:
  GenerateContext context_;
  std::span<const std::int32_t> ids_;
  Arena arena_;
  Pass head_pass_;
  std::vector<float> last_;  // the input of the final norm
};

}  // namespace vitrine
