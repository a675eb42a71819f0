// What ends a text besides its stop ids, its stop strings and its number of tokens.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

namespace vitrine {

/// The repetition of a pattern at the end of a text: `min_count` times the same tokens, `min_size` to `max_size` many.
struct RepetitionLimit {
  std::int64_t min_size = 1, max_size = 0, min_count = 2;

  bool is_reached(std::span<const std::int32_t> ids) const {
    for (std::int64_t size = std::max<std::int64_t>(1, min_size); size <= max_size; ++size) {
      const std::int64_t n = size * min_count;
      if (n > std::ssize(ids)) break;
      const auto tail = ids.last(static_cast<std::size_t>(n));
      if (std::equal(tail.begin() + size, tail.end(), tail.begin())) return true;
    }
    return false;
  }
};

struct TextLimits {
  std::int64_t n_indent = 0;          ///< The text ends before a line that begins with fewer blanks and tabs; 0: off.
  std::int64_t t_max_predict_ms = 0;  ///< So long after its first token, a text ends with the line; 0, -1: off.
  std::optional<RepetitionLimit> repetition{};
};

/// Measures the time of a text.
class TextClock {
 public:
  /// Whether the text has taken too long. The first call begins it.
  bool is_over(const TextLimits& limits) {
    if (limits.t_max_predict_ms <= 0) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!begin_) begin_ = now;
    return now - *begin_ > std::chrono::milliseconds(limits.t_max_predict_ms);
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> begin_{};
};

}  // namespace vitrine
