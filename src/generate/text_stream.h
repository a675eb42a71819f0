// From the bytes of tokens to text for a reader: whole characters only, and nothing from a stop string on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

/// Takes bytes as tokens bring them and returns what may be shown. Held back are the beginning of a character whose
/// rest may still come, and text that may turn out to be a stop string. What all calls return, joined, is what came in,
/// byte for byte, up to the earliest stop string; bytes that cannot become a character pass as they are. It does not
/// depend on how the bytes were cut into tokens.
class TextStream {
 public:
  /// Throws BadInput where a stop string is empty.
  explicit TextStream(std::vector<std::string> stops = {});

  /// Adds bytes, returns what can be shown now. After a stop everything is dropped.
  std::string push(std::string_view bytes);

  /// The text is over: returns what was held back, unfinished characters as raw bytes.
  std::string flush();

  /// Whether a stop string was met. The one that begins first wins, so the answer waits while an earlier beginning is
  /// still open: with "abcd" and "bc", "abc" has not stopped until the next byte, or flush, decides.
  bool stopped() const { return stopped_; }

 private:
  struct Hit;
  Hit first_hit(bool at_end) const;
  std::string take(std::size_t count);

  std::vector<std::string> stops_;
  std::string held_;  // begins on a character or on a byte that is none
  bool stopped_ = false;
};

}  // namespace vitrine
