// How text is cut into words before a model sees it: by a regex or a string, with the behaviours of `tokenizers`; and
// the alphabet of byte-level models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tokenizer/function_ref.h"
#include "tokenizer/regex.h"

namespace vitrine {

/// What becomes of the delimiters, named as in tokenizer.json.
enum class SplitBehavior {
  removed,               ///< "a-b" → "a" "b"
  isolated,              ///< "a-b" → "a" "-" "b"
  merged_with_previous,  ///< "a-b" → "a-" "b"
  merged_with_next,      ///< "a-b" → "a" "-b"
  contiguous,            ///< as isolated, adjacent delimiters in one piece
};

/// The behaviour of that name ("Isolated"). Throws Unsupported for any other name.
SplitBehavior split_behavior(std::string_view name, std::string_view where);

/// Merges what a pattern found into pieces. Fed with the parts of a text in order, each one a delimiter or not, it
/// calls `piece` for each piece; call finish at the end. Empty pieces are left out.
class Splitter {
 public:
  using Piece = FunctionRef<void(std::string_view)>;
  Splitter(std::string_view text, SplitBehavior behavior, bool invert, Piece piece)
      : text_(text), behavior_(behavior), invert_(invert), piece_(piece) {}

  /// The delimiter [begin, end); what lies between it and the one before is not a delimiter.
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
  std::size_t seen_ = 0;     // end of the last part
  std::size_t pending_ = 0;  // where the piece that is not finished yet begins; it ends at seen_
  bool last_is_delimiter_ = false;
};

/// Cuts by a regex or a string.
class Split {
 public:
  Split(Regex regex, SplitBehavior behavior, bool invert)
      : pattern_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  Split(std::string string, SplitBehavior behavior, bool invert)
      : pattern_(std::move(string)), behavior_(behavior), invert_(invert) {}

  /// Calls `piece` for each piece of `text`, which must be valid UTF-8.
  void operator()(std::string_view text, Splitter::Piece piece) const;

 private:
  std::variant<Regex, std::string> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// GPT-2's pattern, which ByteLevel uses where it is not told another one.
/// Source: openai/gpt-2, src/encoder.py.
extern const char* const kGpt2Pattern;

/// Calls `valid` for each longest run of valid UTF-8 and `broken` for each byte that belongs to none, in order.
void for_each_valid_run(std::string_view text, FunctionRef<void(std::string_view)> valid,
                        FunctionRef<void(char)> broken);

/// Appends `bytes` in the alphabet of byte-level models: each byte as one visible character, itself where it is visible
/// in Latin-1, from U+0100 up where it is not. Source: openai/gpt-2, src/encoder.py (bytes_to_unicode).
void append_byte_level(std::string_view bytes, std::string& out);

/// Appends the bytes that `text` spells in that alphabet. False, and nothing is appended, where a character is not in
/// it.
bool append_from_byte_level(std::string_view text, std::string& out);

}  // namespace vitrine
