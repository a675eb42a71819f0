#include "tokenizer/normalizer.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/read/charsmap.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

using Changes = std::vector<CharacterChange>;

/// The changes of a text whose parts are normalized one by one: the characters of a part replace those of the old one
/// in their order, what is left of the new ones is inserted.
class PartChanges {
 public:
  void add(std::string_view from, std::string_view to) {
    std::ptrdiff_t left = 0;
    for_each_character(from, [&](std::uint32_t, std::string_view) { ++left; });
    for_each_character(to, [&](std::uint32_t, std::string_view character) {
      changes_.push_back({character.size(), left > 0 ? 0 : 1});
      left -= left > 0 ? 1 : 0;
    });
    // As in `tokenizers`, what is removed before the first character is not counted.
    if (left > 0 && !changes_.empty()) changes_.back().change -= left;
  }
  const Changes& changes() const { return changes_; }

 private:
  Changes changes_;
};

using EachPart = std::function<std::size_t(std::string_view)>;  // bytes of the first part

/// Applies a function.
class Function final : public Normalizer {
 public:
  using Apply = std::function<std::string(std::string, std::size_t most)>;
  /// The places of the result.
  using Align = std::function<TextPlaces(std::string_view text, std::string_view result, std::span<const TextPlace>)>;
  Function(std::string name, Apply function, Align align)
      : name_(std::move(name)), function_(std::move(function)), align_(std::move(align)) {}
  std::string apply(std::string text, std::size_t most, EncodingRecorder* recorder) const override {
    if (recorder == nullptr) return checked_size(function_(std::move(text), most), most);
    std::string result = checked_size(function_(text, most), most);
    recorder->normalized(name_, text, result);
    return result;
  }

  std::string align(const std::string& text, std::size_t most, TextPlaces& places) const override {
    std::string result = checked_size(function_(text, most), most);
    places = align_(text, result, places);
    if (places.size() != result.size()) throw InternalError("tokenizer", "{}: places of other bytes", name_);
    return result;
  }

 private:
  std::string name_;
  Apply function_;
  Align align_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> parts) : parts_(std::move(parts)) {}
  std::string apply(std::string text, std::size_t most, EncodingRecorder* recorder) const override {
    for (const auto& part : parts_) text = part->apply(std::move(text), most, recorder);
    return text;
  }
  std::string align(const std::string& text, std::size_t most, TextPlaces& places) const override {
    std::string result = text;
    for (const auto& part : parts_) result = part->align(result, most, places);
    return result;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

std::string strip(std::string text, bool left, bool right) {
  std::size_t begin = 0, end = text.size();
  const std::string_view view = text;
  while (left && begin < end && is_white_space(code_point(view.substr(begin)))) begin += length_by_lead(view[begin]);
  while (right && end > begin) {
    const std::size_t last = last_character(view.substr(0, end));
    if (!is_white_space(code_point(view.substr(last)))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string without(std::string_view text, bool (*dropped)(std::uint32_t)) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::uint32_t c, std::string_view character) {
    if (!dropped(c)) out += character;
  });
  return out;
}

/// Removes control characters and replaces white space by spaces. Source: the nmt rules of google/sentencepiece, as in
/// normalizers/unicode.rs.
std::string nmt(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::uint32_t c, std::string_view character) {
    if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
      return;
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                       c == 0xFFFD;
    out += space ? " " : character;
  });
  return out;
}

/// BERT's definition of a Chinese character. Source: google-research/bert, tokenization.py.
bool is_cjk(std::uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

struct BertOptions {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

std::string bert(std::string_view text, const BertOptions& o) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::uint32_t c, std::string_view character) {
    const bool layout = c == '\t' || c == '\n' || c == '\r';  // control characters that BERT treats as spaces
    if (o.clean_text && !layout && (c == 0 || c == 0xFFFD || is_control(c))) return;
    if (o.clean_text && (layout || is_white_space(c))) character = " ";
    const bool separate = o.handle_chinese_chars && is_cjk(c);
    if (separate) out += ' ';
    out += character;
    if (separate) out += ' ';
  });
  if (o.strip_accents) out = without(normalized(out, NormalForm::nfd), is_nonspacing_mark);
  return o.lowercase ? lowercase(out) : out;
}

/// Applies SentencePiece's character map as `tokenizers` does (normalizers/precompiled.rs): a grapheme cluster of less
/// than 6 bytes is replaced as a whole if one of its prefixes has a rule; otherwise each character is replaced.
std::string apply_charsmap(const Charsmap& map, std::string_view text, PartChanges* changes = nullptr) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view grapheme = text.substr(0, grapheme_length(text));
    text.remove_prefix(grapheme.size());
    const auto replace = [&](std::string_view part) {
      const Charsmap::Match match = map.shortest(part);
      if (match.length != 0) out += match.replacement;
      if (match.length != 0 && changes != nullptr) changes->add(part, match.replacement);
      return match.length != 0;
    };
    if (grapheme.size() < 6 && replace(grapheme)) continue;
    for_each_character(grapheme, [&](std::uint32_t, std::string_view character) {
      if (replace(character)) return;
      out += character;
      if (changes != nullptr) changes->add(character, character);
    });
  }
  return out;
}

std::size_t one_character(std::string_view text) { return length_by_lead(text[0]); }

/// The alignment of a function that gives the same for the parts of a text as for the whole: each byte has the place of
/// the character of its part that is as far from the part's first character or, of the last ones, from its last.
Function::Align by_part(std::function<std::string(std::string)> function, EachPart each_part) {
  return [function, each_part](std::string_view text, std::string_view result, std::span<const TextPlace> places) {
    TextPlaces all;
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view part = text.substr(at, each_part(text.substr(at)));
      TextPlaces from;  // of each character
      for_each_character(part, [&](std::uint32_t, std::string_view character) {
        from.push_back(places[static_cast<std::size_t>(character.data() - text.data())]);
      });
      const std::string made = function(std::string(part));
      const auto n =
          static_cast<std::size_t>(std::count_if(made.begin(), made.end(), [](char c) { return !is_continuation(c); }));
      std::size_t i = 0;
      for_each_character(made, [&](std::uint32_t, std::string_view character) {
        const std::size_t last = from.size() - 1, shift = n < from.size() ? from.size() - n : 0;
        all.insert(all.end(), character.size(), from[i == 0 ? 0 : std::min(i + shift, last)]);
        ++i;
      });
      at += part.size();
    }
    all.resize(result.size(), joined(places));  // marks that the whole text orders across parts
    return all;
  };
}

std::unique_ptr<const Normalizer> make(std::string_view name, const std::function<std::string(std::string)>& function,
                                       Function::Align align) {
  const auto apply = [function](std::string text, std::size_t) { return function(std::move(text)); };
  return std::make_unique<Function>(std::string(name), apply, std::move(align));
}

std::unique_ptr<const Normalizer> make(std::string_view name, const std::function<std::string(std::string)>& function,
                                       const EachPart& each_part = one_character) {
  return make(name, function, by_part(function, each_part));
}

std::unique_ptr<const Normalizer> parse_sequence(const JsonFields& fields, std::string_view where) {
  fields.allow({"type", "normalizers"});
  std::vector<std::unique_ptr<const Normalizer>> parts;
  for (const Json& part : fields.array("normalizers")) {
    if (part.is_null()) throw BadCheckpoint(where, "expected an object in the normalizers, got null");
    parts.push_back(parse_normalizer(part, where));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<const Normalizer> parse_bert(const JsonFields& fields) {
  fields.allow({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lower = fields.boolean("lowercase", true);
  const BertOptions options = {fields.boolean("clean_text", true), fields.boolean("handle_chinese_chars", true),
                               fields.boolean("strip_accents", lower), lower};
  return make("BertNormalizer", [options](const std::string& text) { return bert(text, options); });
}

std::unique_ptr<const Normalizer> parse_replace(const JsonFields& fields, std::string_view where) {
  fields.allow({"type", "pattern", "content"});
  auto pattern = std::make_shared<const Pattern>(parse_pattern(fields.at("pattern"), where));
  const auto replace = [pattern, content = fields.string("content")](const std::string& text, std::size_t most) {
    return replaced(text, *pattern, content, most);
  };
  // What is put in has the place of the last byte that was taken out.
  const auto align = [pattern, content = fields.string("content")](std::string_view text, std::string_view,
                                                                   std::span<const TextPlace> places) {
    TextPlaces all;
    std::size_t copied = 0;
    const auto copy_to = [&](std::size_t end) {
      all.insert(all.end(), places.begin() + static_cast<std::ptrdiff_t>(copied),
                 places.begin() + static_cast<std::ptrdiff_t>(end));
    };
    for_each_match(*pattern, text, [&](Regex::Match m) {
      copy_to(m.begin);
      all.insert(all.end(), content.size(), m.end == 0 ? TextPlace() : places[m.end - 1]);
      copied = m.end;
    });
    copy_to(text.size());
    return all;
  };
  return std::make_unique<Function>("Replace", replace, align);
}

std::unique_ptr<const Normalizer> parse_form(std::string_view type) {
  const auto form = type == "NFC"    ? NormalForm::nfc
                    : type == "NFD"  ? NormalForm::nfd
                    : type == "NFKC" ? NormalForm::nfkc
                                     : NormalForm::nfkd;
  return make(
      type, [form](const std::string& text) { return normalized(text, form); }, grapheme_length);
}

}  // namespace

std::unique_ptr<const Normalizer> parse_normalizer(const Json& json, std::string_view where) {
  if (json.is_null()) return nullptr;
  const JsonFields fields(json, "the normalizer", where);
  const std::string type = fields.string("type");
  if (type == "Sequence") return parse_sequence(fields, where);
  if (type == "BertNormalizer") return parse_bert(fields);
  if (type == "Replace") return parse_replace(fields, where);
  if (type == "Prepend") {
    fields.allow({"type", "prepend"});
    const std::string prefix = fields.string("prepend");
    const auto align = [](std::string_view text, std::string_view result, std::span<const TextPlace> places) {
      TextPlaces all(result.size() - text.size(), text.empty() ? TextPlace() : places.front());
      all.insert(all.end(), places.begin(), places.end());
      return all;
    };
    return make(
        type, [prefix](std::string text) { return text.empty() ? text : prefix + text; }, align);
  }
  if (type == "Strip") {
    fields.allow({"type", "strip_left", "strip_right"});
    const bool left = fields.boolean("strip_left"), right = fields.boolean("strip_right");
    const auto align = [left](std::string_view text, std::string_view result, std::span<const TextPlace> places) {
      const std::size_t first = strip(std::string(text), left, false).size();
      const std::span<const TextPlace> kept = places.subspan(text.size() - first, result.size());
      return TextPlaces(kept.begin(), kept.end());
    };
    return make(
        type, [left, right](std::string text) { return strip(std::move(text), left, right); }, align);
  }
  if (type == "Precompiled") {
    fields.allow({"type", "precompiled_charsmap"});
    std::string digits = fields.string("precompiled_charsmap");
    digits.erase(digits.find_last_not_of('=') + 1);
    const auto blob = decode_base64(digits);
    if (!blob || digits.size() % 4 == 1) throw BadCheckpoint(where, "precompiled_charsmap is not valid base64");
    auto map = std::make_shared<const Charsmap>(Charsmap::parse(blob->bytes, where));
    const auto align = [map](std::string_view text, std::string_view, std::span<const TextPlace> places) {
      PartChanges changes;
      apply_charsmap(*map, text, &changes);
      return changed(text, places, changes.changes());
    };
    return make(
        type, [map](const std::string& text) { return apply_charsmap(*map, text); }, align);
  }
  fields.allow({"type"});
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") return parse_form(type);
  if (type == "Lowercase") return make(type, [](const std::string& text) { return lowercase(text); });
  if (type == "StripAccents")
    return make(type, [](const std::string& text) { return without(text, is_combining_mark); });
  if (type == "Nmt") return make(type, [](const std::string& text) { return nmt(text); });
  if (type == "ByteLevel") return make(type, [](const std::string& text) { return byte_level(text); });
  throw Unsupported(where, "the normalizer \"{}\" is not supported", type);
}

}  // namespace vitrine
