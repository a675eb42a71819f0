#include "tokenizer/split.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/utf8.h"

namespace vitrine {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Pattern parse_pattern(const Json& json, std::string_view where) {
  if (json.is_string()) {  // in CharDelimiterSplit and older files
    if (json.get<std::string>().empty()) throw BadCheckpoint(where, "expected a pattern, got an empty string");
    return json.get<std::string>();
  }
  const JsonFields fields(json, "a pattern", where);
  fields.allow({"String", "Regex"});
  if (fields.find("Regex") != nullptr) return Regex(fields.string("Regex"), RegexSyntax::oniguruma, where);
  std::string string = fields.string("String");
  if (string.empty()) throw BadCheckpoint(where, "expected a pattern, got an empty string");
  return string;
}

std::string checked_size(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  throw OutOfCapacity("tokenizer", "expected the tokenizer's rules to give at most {} bytes, got {}", most,
                      text.size());
}

std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most) {
  most = std::max(most, text.size());
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;
  const auto replace = [&](std::size_t begin, std::size_t end) {
    if (out.size() > most || content.size() > most) {
      throw OutOfCapacity("tokenizer", "expected at most {} bytes after replacements by {} bytes, got more", most,
                          content.size());
    }
    out.append(text.substr(copied, begin - copied)).append(content);
    copied = end;
  };
  for_each_match(pattern, text, [&](Regex::Match m) { replace(m.begin, m.end); });
  return checked_size(std::move(out.append(text.substr(copied))), most);
}

SplitBehavior split_behavior(std::string_view name, std::string_view where) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw Unsupported(where, "the split behavior \"{}\" is not supported", name);
}

void Splitter::delimiter(std::size_t begin, std::size_t end) {
  if (done_ < begin) part(done_, begin, false);
  part(begin, end, true);
}

void Splitter::finish() {
  if (done_ < text_.size()) part(done_, text_.size(), false);
  emit(pending_, done_);
}

void Splitter::part(std::size_t begin, std::size_t end, bool is_delimiter) {
  is_delimiter ^= invert_;
  const bool extends = behavior_ == SplitBehavior::merged_with_previous ? is_delimiter && !last_is_delimiter_
                       : behavior_ == SplitBehavior::merged_with_next   ? !is_delimiter && last_is_delimiter_
                       : behavior_ == SplitBehavior::contiguous         ? is_delimiter == last_is_delimiter_
                                                                        : false;
  if (!extends) {
    emit(pending_, done_);
    pending_ = behavior_ == SplitBehavior::removed && is_delimiter ? end : begin;
  }
  done_ = end;
  last_is_delimiter_ = is_delimiter;
}

void Split::operator()(std::string_view text, Splitter::Piece piece) const {
  Splitter splitter(text, behavior_, invert_, piece);
  for_each_match(pattern_, text, [&](Regex::Match m) { splitter.delimiter(m.begin, m.end); });
  splitter.finish();
}

void for_each_valid_run(std::string_view text, FunctionRef<void(std::string_view)> valid,
                        FunctionRef<void(char)> invalid) {
  while (!text.empty()) {
    const std::size_t length = valid_prefix(text);
    if (length > 0) valid(text.substr(0, length));
    if (length == text.size()) return;
    invalid(text[length]);
    text.remove_prefix(length + 1);
  }
}

namespace {

bool is_itself(unsigned byte) { return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD); }

struct Spelling {
  std::array<char, 2> bytes = {};
  std::uint8_t length = 0;
};

struct Alphabet {
  Alphabet() {
    std::uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::uint32_t c = is_itself(byte) ? byte : next++;
      std::string spelled;
      append_code_point(c, spelled);
      Spelling& s = spelling[byte];
      s.length = static_cast<std::uint8_t>(spelled.size());
      std::copy(spelled.begin(), spelled.end(), s.bytes.begin());
      byte_of[c] = static_cast<std::int16_t>(byte);
    }
  }
  std::array<Spelling, 256> spelling;
  std::array<std::int16_t, 0x144> byte_of = [] {
    std::array<std::int16_t, 0x144> none{};
    none.fill(-1);
    return none;
  }();
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

void append_byte_level(std::string_view bytes, std::string& out) {
  const Alphabet& a = alphabet();
  for (char byte : bytes) {
    const Spelling& s = a.spelling[static_cast<unsigned char>(byte)];
    out.append(s.bytes.data(), s.length);
  }
}

std::string byte_level(std::string_view bytes) {
  std::string text;
  append_byte_level(bytes, text);
  return text;
}

bool append_from_byte_level(std::string_view text, std::string& out) {
  const std::size_t before = out.size();
  const Alphabet& a = alphabet();
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text.substr(i));
    const std::uint32_t c = length == 0 || length > 2 ? 0xFFFF : code_point(text.substr(i, length));
    if (c >= a.byte_of.size() || a.byte_of[c] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(a.byte_of[c]));
    i += length;
  }
  return true;
}

}  // namespace vitrine
