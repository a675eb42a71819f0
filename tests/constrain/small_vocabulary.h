// A vocabulary of given tokens, and masks by brute force.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "constrain/constraint.h"
#include "constrain/vocabulary.h"

namespace vitrine::test {

/// Token i is `pieces[i]`; the ids after them: an end of text, then a special token.
class ListTokenizer final : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    stop_ids_ = {static_cast<std::int32_t>(pieces_.size())};
  }
  std::string piece(std::int32_t id) const override {
    const std::size_t i = checked_index(id);
    return i < pieces_.size() ? pieces_[i] : i == pieces_.size() ? "<end>" : "<mark>";
  }
  std::string bytes(std::int32_t id) const override {
    const std::size_t i = checked_index(id);
    return i < pieces_.size() ? pieces_[i] : "";
  }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()) + 2; }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }
  std::int32_t mark() const { return stop_ids_[0] + 1; }

 private:
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule&, EncodingRecorder*) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) {
      for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (pieces_[i] == std::string(1, c)) ids.push_back(static_cast<std::int32_t>(i));
      }
    }
    return ids;
  }

  std::vector<std::string> pieces_;
  std::vector<std::int32_t> stop_ids_;
};

/// All texts of 1 to `length` characters of `letters`.
inline std::vector<std::string> all_texts(const std::string& letters, std::size_t length) {
  std::vector<std::string> texts, last{""};
  for (std::size_t n = 0; n < length; ++n) {
    std::vector<std::string> next;
    for (const std::string& text : last) {
      for (const char c : letters) next.push_back(text + c);
    }
    texts.insert(texts.end(), next.begin(), next.end());
    last = std::move(next);
  }
  return texts;
}

/// Every byte is a token, so that every text can be written; then `more`.
inline std::shared_ptr<const constrain::Vocabulary> byte_vocabulary(const std::vector<std::string>& more = {}) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.insert(pieces.end(), more.begin(), more.end());
  return std::make_shared<const constrain::Vocabulary>(ListTokenizer(std::move(pieces)));
}

inline constrain::Matcher matcher_of(constrain::Source source,
                                     std::shared_ptr<const constrain::Vocabulary> vocabulary = byte_vocabulary()) {
  return constrain::Matcher(std::make_shared<const constrain::Constraint>(source, std::move(vocabulary)));
}
inline constrain::Source schema(std::string text, bool has_white_space = true) {
  return {.kind = constrain::Source::Kind::schema, .text = std::move(text), .has_white_space = has_white_space};
}
inline constrain::Source regex(std::string text) {
  return {.kind = constrain::Source::Kind::regex, .text = std::move(text)};
}
inline constrain::Source grammar(std::string text) {
  return {.kind = constrain::Source::Kind::grammar, .text = std::move(text)};
}
inline constrain::Source choice(std::vector<std::string> texts) {
  return {.kind = constrain::Source::Kind::choice, .choices = std::move(texts)};
}

/// Whether `text` is an answer.
inline bool permits(const constrain::Matcher& start, std::string_view text) {
  constrain::Matcher matcher = start;
  matcher.append(text);
  return matcher.is_complete();
}

}  // namespace vitrine::test
