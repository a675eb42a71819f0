// Converts the bytes of tokens to text that can be shown: whole characters, up to a stop string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/space_cleanup.h"

namespace vitrine {

/// Takes the bytes of one token after another and returns text that can be shown. It holds back an incomplete character
/// while the rest may still follow, and text that may become a stop string. The concatenation of all returned texts is
/// the input, byte for byte, up to the earliest stop string, however the bytes were divided into tokens. Bytes that
/// cannot become part of a valid character are returned unchanged. If it cleans up, the input is the text without the
/// spaces that clean_up_spaces() removes.
class TextStream {
 public:
  /// `keeps_stop`: the stop string is part of the text. `n_indent`: a line feed after which a line begins with fewer
  /// blanks and tabs is a stop string that is not kept; 0: none is. Throws BadInput for an empty stop string.
  explicit TextStream(std::vector<std::string> stops = {}, bool keeps_stop = false, bool cleans_up = false,
                      std::int64_t n_indent = 0);

  /// Adds bytes and returns the text that can be shown now. After a stop string, all further bytes are dropped.
  std::string push(std::string_view bytes);

  /// At the end of the text: returns everything held back, unfinished characters as raw bytes.
  std::string flush();

  /// Whether a stop string was found. The stop string that begins first counts, so a later one is not accepted while an
  /// earlier one may still be completed: with "abcd" and "bc", "abc" stops only at the next byte, or at flush().
  bool stopped() const { return stop_.has_value(); }
  /// The stop string that was found.
  const std::optional<std::string>& stop() const { return stop_; }

 private:
  struct Hit;
  std::string add(std::string_view bytes);
  Hit first_hit(bool at_end) const;
  std::optional<Hit> hit_at_line(std::size_t begin, bool at_end) const;
  std::string take(std::size_t count);

  std::vector<std::string> stops_;
  std::optional<SpaceCleanup> cleanup_;
  bool keeps_stop_;
  std::int64_t n_indent_;
  std::string held_;  // begins with a character or an invalid byte
  std::optional<std::string> stop_;
};

}  // namespace vitrine
