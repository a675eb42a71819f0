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

/// Applies a function.
class Function final : public Normalizer {
 public:
  using Apply = std::function<std::string(std::string, std::size_t most)>;
  Function(std::string name, Apply function) : name_(std::move(name)), function_(std::move(function)) {}
  std::string apply(std::string text, std::size_t most, EncodingRecorder* recorder) const override {
    if (recorder == nullptr) return checked_size(function_(std::move(text), most), most);
    std::string result = checked_size(function_(text, most), most);
    recorder->normalized(name_, text, result);
    return result;
  }

 private:
  std::string name_;
  Apply function_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> parts) : parts_(std::move(parts)) {}
  std::string apply(std::string text, std::size_t most, EncodingRecorder* recorder) const override {
    for (const auto& part : parts_) text = part->apply(std::move(text), most, recorder);
    return text;
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
std::string apply_charsmap(const Charsmap& map, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view grapheme = text.substr(0, grapheme_length(text));
    text.remove_prefix(grapheme.size());
    const auto replace = [&](std::string_view part) {
      const Charsmap::Match match = map.shortest(part);
      if (match.length != 0) out += match.replacement;
      return match.length != 0;
    };
    if (grapheme.size() < 6 && replace(grapheme)) continue;
    for_each_character(grapheme, [&](std::uint32_t, std::string_view character) {
      if (!replace(character)) out += character;
    });
  }
  return out;
}

std::unique_ptr<const Normalizer> make(std::string_view name, std::function<std::string(std::string)> function) {
  return std::make_unique<Function>(std::string(name), [function = std::move(function)](std::string text, std::size_t) {
    return function(std::move(text));
  });
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
  return std::make_unique<Function>("Replace", replace);
}

std::unique_ptr<const Normalizer> parse_form(std::string_view type) {
  const auto form = type == "NFC"    ? NormalForm::nfc
                    : type == "NFD"  ? NormalForm::nfd
                    : type == "NFKC" ? NormalForm::nfkc
                                     : NormalForm::nfkd;
  return make(type, [form](const std::string& text) { return normalized(text, form); });
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
    return make(type,
                [prefix = fields.string("prepend")](std::string text) { return text.empty() ? text : prefix + text; });
  }
  if (type == "Strip") {
    fields.allow({"type", "strip_left", "strip_right"});
    const bool left = fields.boolean("strip_left"), right = fields.boolean("strip_right");
    return make(type, [left, right](std::string text) { return strip(std::move(text), left, right); });
  }
  if (type == "Precompiled") {
    fields.allow({"type", "precompiled_charsmap"});
    std::string digits = fields.string("precompiled_charsmap");
    digits.erase(digits.find_last_not_of('=') + 1);
    const auto blob = decode_base64(digits);
    if (!blob || digits.size() % 4 == 1) throw BadCheckpoint(where, "precompiled_charsmap is not valid base64");
    auto map = std::make_shared<const Charsmap>(Charsmap::parse(blob->bytes, where));
    return make(type, [map](const std::string& text) { return apply_charsmap(*map, text); });
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
