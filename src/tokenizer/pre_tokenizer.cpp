#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

class SplitPreTokenizer final : public PreTokenizer {
 public:
  explicit SplitPreTokenizer(Split split) : split_(std::move(split)) {}
  void operator()(std::string_view text, bool at_start, Word word) const override {
    split_(text, [&](std::string_view w) { word(w, at_start && w.data() == text.data()); });
  }

 private:
  Split split_;
};

/// Every character with a given property is a delimiter.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(bool (*is_delimiter)(std::uint32_t), SplitBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}
  void operator()(std::string_view text, bool at_start, Word word) const override {
    const auto piece = [&](std::string_view w) { word(w, at_start && w.data() == text.data()); };
    Splitter splitter(text, behavior_, false, piece);
    for_each_character(text, [&](std::uint32_t c, std::string_view character) {
      const auto begin = static_cast<std::size_t>(character.data() - text.data());
      if (is_delimiter_(c)) splitter.delimiter(begin, begin + character.size());
    });
    splitter.finish();
  }

 private:
  bool (*is_delimiter_)(std::uint32_t);
  SplitBehavior behavior_;
};

/// The pattern \w+|[^\w\s]+: runs of \w, and runs of characters that are neither \w nor white space.
class Whitespace final : public PreTokenizer {
 public:
  void operator()(std::string_view text, bool at_start, Word word) const override {
    enum class Kind { space, letters, other };
    std::size_t begin = 0;
    Kind last = Kind::space;
    for (std::size_t i = 0; i <= text.size();) {
      const std::size_t length = i < text.size() ? length_by_lead(text[i]) : 1;
      const std::uint32_t c = i < text.size() ? code_point(text.substr(i, length)) : ' ';
      const Kind kind = is_word_character(c) ? Kind::letters : is_white_space(c) ? Kind::space : Kind::other;
      if (kind != last) {
        if (last != Kind::space) word(text.substr(begin, i - begin), at_start && begin == 0);
        begin = i;
        last = kind;
      }
      i += length;
    }
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::int64_t n_characters) : n_characters_(n_characters) {}
  void operator()(std::string_view text, bool at_start, Word word) const override {
    for (std::size_t begin = 0, i = 0; begin < text.size(); begin = i) {
      for (std::int64_t n = 0; n < n_characters_ && i < text.size(); ++n) i += length_by_lead(text[i]);
      word(text.substr(begin, i - begin), at_start && begin == 0);
    }
  }

 private:
  std::int64_t n_characters_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, std::optional<Split> split)
      : add_prefix_space_(add_prefix_space), split_(std::move(split)) {}

  void operator()(std::string_view text, bool at_start, Word word) const override {
    std::string prefixed;
    if (add_prefix_space_ && !text.starts_with(' ')) text = prefixed.append(1, ' ').append(text);
    std::string spelled;
    const auto spell = [&](std::string_view w) {
      spelled.clear();
      append_byte_level(w, spelled);
      word(spelled, at_start && w.data() == text.data());
    };
    if (split_) {
      (*split_)(text, spell);
    } else {
      spell(text);
    }
  }
  std::optional<TextPlaces> places_of_words(std::string_view text, bool,
                                            std::span<const TextPlace> places) const override {
    TextPlaces all;
    if (add_prefix_space_ && !text.starts_with(' '))
      all.resize(byte_level(" ").size(), joined(places.first(text.empty() ? 0 : 1)));
    for (std::size_t i = 0; i < text.size(); ++i)
      all.insert(all.end(), byte_level(text.substr(i, 1)).size(), places[i]);
    return all;
  }
  bool is_byte_level() const override { return true; }

 private:
  bool add_prefix_space_;
  std::optional<Split> split_;
};

/// Replaces spaces by a visible character and splits the text before each of them.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(Metaspace metaspace) : metaspace_(std::move(metaspace)) {}

  void operator()(std::string_view text, bool at_start, Word word) const override {
    std::string marked;
    marked.reserve(text.size() + text.size() / 2);
    if (prepends(text, at_start)) marked = metaspace_.replacement;
    append_with_spaces_as(metaspace_.replacement, text, marked);
    const auto piece = [&](std::string_view w) { word(w, at_start && w.data() == marked.data()); };
    if (!metaspace_.split) return piece(marked);
    split_(marked, piece);
  }
  std::optional<TextPlaces> places_of_words(std::string_view text, bool at_start,
                                            std::span<const TextPlace> places) const override {
    TextPlaces all;
    if (prepends(text, at_start)) all.resize(metaspace_.replacement.size(), joined(places.first(text.empty() ? 0 : 1)));
    for (std::size_t i = 0; i < text.size(); ++i) {
      all.insert(all.end(), text[i] == ' ' ? metaspace_.replacement.size() : 1, places[i]);
    }
    return all;
  }

 private:
  bool prepends(std::string_view text, bool at_start) const {
    const bool may =
        metaspace_.scheme == Metaspace::Scheme::always || (metaspace_.scheme == Metaspace::Scheme::first && at_start);
    return may && !text.starts_with(' ') && !text.starts_with(metaspace_.replacement);
  }

  Metaspace metaspace_;
  Split split_{metaspace_.replacement, SplitBehavior::merged_with_next, false};
};

using Parsed = std::unique_ptr<const PreTokenizer>;

Parsed parse_byte_level(const JsonFields& fields, std::string_view where) {
  fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  std::optional<Split> split;
  if (fields.boolean("use_regex", true)) {
    split.emplace(Regex(kGpt2Pattern, RegexSyntax::oniguruma, where), SplitBehavior::isolated, false);
  }
  return std::make_unique<ByteLevel>(fields.boolean("add_prefix_space"), std::move(split));
}

Parsed parse_split(const JsonFields& fields, std::string_view where) {
  fields.allow({"type", "pattern", "behavior", "invert"});
  const SplitBehavior behavior = split_behavior(fields.string("behavior"), where);
  const bool invert = fields.boolean("invert", false);
  return make_split_pre_tokenizer(Split(parse_pattern(fields.at("pattern"), where), behavior, invert));
}

Parsed parse_one(const JsonFields& fields, const std::string& type, std::string_view where) {
  if (type == "ByteLevel") return parse_byte_level(fields, where);
  if (type == "Split") return parse_split(fields, where);
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(parse_metaspace(fields));
  if (type == "Digits") {
    fields.allow({"type", "individual_digits"});
    const bool individual = fields.boolean("individual_digits", false);
    return std::make_unique<CharacterSplit>(is_numeric,
                                            individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
  }
  if (type == "Punctuation") {
    fields.allow({"type", "behavior"});
    return std::make_unique<CharacterSplit>(is_punctuation,
                                            split_behavior(fields.string("behavior", "Isolated"), where));
  }
  if (type == "CharDelimiterSplit") {
    fields.allow({"type", "delimiter"});
    const std::string delimiter = fields.string("delimiter");
    if (delimiter.empty() || character_length(delimiter) != delimiter.size()) {
      throw BadCheckpoint(where, "expected one character as the delimiter, got \"{}\"", delimiter);
    }
    return make_split_pre_tokenizer(Split(delimiter, SplitBehavior::removed, false));
  }
  if (type == "FixedLength") {
    fields.allow({"type", "length"});
    const std::int64_t length = fields.integer("length", 5);
    if (length == 0) throw BadCheckpoint(where, "expected a length of at least 1 for FixedLength, got 0");
    return std::make_unique<FixedLength>(length);
  }
  fields.allow({"type"});
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(is_white_space, SplitBehavior::removed);
  if (type == "BertPreTokenizer") {
    std::vector<Parsed> parts;
    parts.push_back(std::make_unique<CharacterSplit>(is_white_space, SplitBehavior::removed));
    parts.push_back(std::make_unique<CharacterSplit>(is_punctuation, SplitBehavior::isolated));
    return std::make_unique<PreTokenizers>(std::move(parts), std::vector<std::string>(2));
  }
  throw Unsupported(where, "the pre-tokenizer \"{}\" is not supported", type);
}

/// Each pre-tokenizer calls the next, so a long list would overflow the stack.
constexpr std::size_t kMaxStages = 64;

/// Appends the pre-tokenizers of `json`. Nested sequences are flattened.
void append(const Json& json, std::string_view where, std::vector<Parsed>& parts, std::vector<std::string>& names) {
  const JsonFields fields(json, "the pre-tokenizer", where);
  std::string type = fields.string("type");
  if (type != "Sequence") {
    if (parts.size() == kMaxStages)
      throw BadCheckpoint(where, "expected at most {} pre-tokenizers in a sequence", kMaxStages);
    parts.push_back(parse_one(fields, type, where));
    names.push_back(std::move(type));
    return;
  }
  fields.allow({"type", "pretokenizers"});
  for (const Json& part : fields.array("pretokenizers")) append(part, where, parts, names);
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_split_pre_tokenizer(Split split) {
  return std::make_unique<SplitPreTokenizer>(std::move(split));
}

bool PreTokenizers::is_byte_level() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->is_byte_level(); });
}

void PreTokenizers::run(std::size_t stage, std::string_view text, bool at_start, Word word,
                        EncodingRecorder* recorder) const {
  if (stage == parts_.size()) return word(text, at_start);
  (*parts_[stage])(text, at_start, [&](std::string_view w, bool start) {
    if (recorder != nullptr) recorder->pre_token(stage, w);
    run(stage + 1, w, start, word, recorder);
  });
}

void PreTokenizers::run_with_places(std::size_t stage, std::string_view text, bool at_start,
                                    std::span<const TextPlace> places, PlacedWord word) const {
  if (stage == parts_.size()) return word(text, places);
  const std::optional<TextPlaces> own = parts_[stage]->places_of_words(text, at_start, places);
  std::size_t next = 0;  // in `own`
  (*parts_[stage])(text, at_start, [&](std::string_view w, bool start) {
    const std::size_t begin = own ? next : static_cast<std::size_t>(w.data() - text.data());
    next += w.size();
    run_with_places(stage + 1, w, start, (own ? std::span<const TextPlace>(*own) : places).subspan(begin, w.size()),
                    word);
  });
}

PreTokenizers parse_pre_tokenizers(const Json& json, std::string_view where) {
  std::vector<Parsed> parts;
  std::vector<std::string> names;
  if (!json.is_null()) append(json, where, parts, names);
  if (std::count_if(parts.begin(), parts.end(), [](const Parsed& part) { return part->is_byte_level(); }) > 1) {
    throw Unsupported(where, "more than one ByteLevel in a sequence is not supported");  // each may double the text
  }
  return {std::move(parts), std::move(names)};
}

}  // namespace vitrine
