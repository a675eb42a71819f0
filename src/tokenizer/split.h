// The patterns of tokenizer.json, {"String": …} or {"Regex": …}: text is split at their matches, with the behaviors of
// `tokenizers`, or the matches are replaced. Also: the byte-level alphabet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "tokenizer/function_ref.h"
#include "tokenizer/regex.h"

namespace vitrine {

/// Throws BadCheckpoint if the pattern is neither a string nor a regex, or is empty.
Pattern parse_pattern(const Json& json, std::string_view where);

/// `text` with every match of `pattern` replaced by `content`. Throws OutOfCapacity if the result is longer than `most`
/// bytes and longer than `text`.
std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most);

/// Returns `text`. Throws OutOfCapacity if it is longer than `most` bytes.
std::string checked_size(std::string text, std::size_t most);

/// The treatment of delimiters, named as in tokenizer.json.
enum class SplitBehavior {
  removed,               ///< "a-b" → "a" "b"
  isolated,              ///< "a-b" → "a" "-" "b"
  merged_with_previous,  ///< "a-b" → "a-" "b"
  merged_with_next,      ///< "a-b" → "a" "-b"
  contiguous,            ///< as isolated, but adjacent delimiters form one piece
};

/// The behavior with a name such as "Isolated". Throws Unsupported for an unknown name.
SplitBehavior split_behavior(std::string_view name, std::string_view where);

/// Forms pieces from the delimiters in a text: call delimiter() for each in order, then finish(). Calls `piece` for
/// each piece that is not empty.
class Splitter {
 public:
  using Piece = FunctionRef<void(std::string_view)>;
  Splitter(std::string_view text, SplitBehavior behavior, bool invert, Piece piece)
      : text_(text), behavior_(behavior), invert_(invert), piece_(piece) {}

  /// Adds the delimiter [begin, end).
  void delimiter(std::size_t begin, std::size_t end);
  void finish();

 private:
  void part(std::size_t begin, std::size_t end, bool is_delimiter);
  void emit(std::size_t begin, std::size_t end) {
    if (begin < end) piece_(text_.substr(begin, end - begin));
  }

  std::string_view text_;
  SplitBehavior behavior_;
  bool invert_;
  Piece piece_;
  std::size_t done_ = 0;     // the end of the last part
  std::size_t pending_ = 0;  // the beginning of the unfinished piece, which ends at done_
  bool last_is_delimiter_ = false;
};

/// Splits text at the matches of a pattern.
class Split {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  /// Calls `piece` for each piece of `text`, which must be valid UTF-8.
  void operator()(std::string_view text, Splitter::Piece piece) const;

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// GPT-2's pattern, the default of ByteLevel. Source: openai/gpt-2, src/encoder.py.
extern const char* const kGpt2Pattern;

/// Calls `valid` for each maximal run of valid UTF-8 and `invalid` for each other byte, in order.
void for_each_valid_run(std::string_view text, FunctionRef<void(std::string_view)> valid,
                        FunctionRef<void(char)> invalid);

/// Appends `bytes` in the byte-level alphabet, which has a visible character for each byte: the byte itself if it is
/// visible in Latin-1, otherwise a character from U+0100 up. Source: openai/gpt-2, src/encoder.py (bytes_to_unicode).
void append_byte_level(std::string_view bytes, std::string& out);
/// The same, as a new string.
std::string byte_level(std::string_view bytes);

/// Appends the bytes that `text` spells in that alphabet. Appends nothing and returns false for other characters.
bool append_from_byte_level(std::string_view text, std::string& out);

}  // namespace vitrine
