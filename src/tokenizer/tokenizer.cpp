#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "tokenizer/placed.h"
#include "tokenizer/space_cleanup.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

void check_size(std::string_view text) {
  constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
  if (text.size() > kMaxTextBytes) {
    throw BadInput("tokenizer", "expected at most {} bytes of text, got {}", kMaxTextBytes, text.size());
  }
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokens policy) const {
  check_size(text);
  return encode(text, SpecialRule(policy), nullptr);
}

std::vector<std::int32_t> Tokenizer::encode_part(std::string_view text) const {
  check_size(text);
  SpecialRule rule(SpecialTokens::none);
  rule.fim_is_text = true;
  return encode(text, rule, nullptr);
}

bool Tokenizer::adds_bos() const {
  const std::vector<std::int32_t> ids = encode("", SpecialTokens::apply);
  return bos() && !ids.empty() && ids.front() == *bos();
}

std::vector<std::int32_t> Tokenizer::encode_trusted(std::string_view text, TextSpans trusted,
                                                    SpecialTokens policy) const {
  check_size(text);
  return encode(text, SpecialRule(text, trusted, policy), nullptr);
}

bool SpecialRule::trusts(std::size_t begin, std::size_t end) const {
  const auto first = static_cast<std::int64_t>(begin), last = static_cast<std::int64_t>(end);
  const auto after = std::upper_bound(trusted_.begin(), trusted_.end(), first,
                                      [](std::int64_t at, const auto& span) { return at < span.first; });
  return after != trusted_.begin() && (after - 1)->second >= last;
}

bool SpecialRule::recognizes(std::string_view match) const {
  if (policy == SpecialTokens::none) return false;
  if (trusts_all_) return true;
  const std::less_equal<const char*> before;
  if (before(text_.data(), match.data()) && before(match.data() + match.size(), text_.data() + text_.size())) {
    const auto begin = static_cast<std::size_t>(match.data() - text_.data());
    return trusts(begin, begin + match.size());
  }
  // In normalized text, whose bytes have other offsets: the token must be trusted wherever it is written.
  std::size_t at = text_.find(match);
  if (at == text_.npos) return trusts(0, text_.size());
  for (; at != text_.npos; at = text_.find(match, at + 1)) {
    if (!trusts(at, at + match.size())) return false;
  }
  return true;
}

PairEncoding Tokenizer::encode_pair(std::string_view a, std::string_view b, SpecialTokens policy,
                                    std::optional<std::int64_t> most) const {
  check_size(a);
  check_size(b);
  return encode_texts(a, b, policy, most);
}

PairEncoding Tokenizer::encode_texts(std::string_view, std::string_view, SpecialTokens,
                                     std::optional<std::int64_t>) const {
  throw Unsupported("tokenizer", "pairs of texts are not supported: the tokenizer has no template for them");
}

PlacedIds Tokenizer::encode_placed(std::string_view text, SpecialTokens policy) const {
  check_size(text);
  if (!is_valid_utf8(text)) throw BadInput("tokenizer", "expected text in UTF-8, which has places");
  return encode_places(text, policy);
}

PlacedIds Tokenizer::encode_places(std::string_view, SpecialTokens) const {
  throw Unsupported("tokenizer",
                    "tokens of this kind of tokenizer have no places in the text: expected a tokenizer.json");
}

PlacedTexts Tokenizer::with_template(const PlacedIds&, const PlacedIds*, SpecialTokens) const {
  throw Unsupported("tokenizer",
                    "tokens of this kind of tokenizer have no places in the text: expected a tokenizer.json");
}

std::string Tokenizer::join(std::span<const std::string> pieces) const {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

Explanation Tokenizer::explain(std::string_view text, SpecialTokens policy, std::size_t max_items) const {
  check_size(text);
  EncodingRecorder recorder(max_items);
  std::vector<std::int32_t> ids = encode(text, SpecialRule(policy), &recorder);
  return recorder.finish(std::move(ids));
}

std::size_t Tokenizer::checked_index(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw BadInput("tokenizer", "expected ids from 0 to {}, got {}", vocab_size() - 1, id);
  }
  return static_cast<std::size_t>(id);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  Detokenizer detokenizer(*this);
  std::string text;
  for (std::int32_t id : ids) text += detokenizer.push(id);
  return cleans_up() ? clean_up_spaces(text) : text;
}

std::int32_t language_token(const Tokenizer& tokenizer, const std::string& language, std::string_view option) {
  const std::string between = "__" + language + "__";
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece(id);
    if (piece == language || piece == between) return id;
  }
  throw BadInput(option, "the vocabulary has no token {}", language);
}

void set_source_language(const Tokenizer& tokenizer, const std::string& language, std::vector<std::int32_t>& ids) {
  const std::optional<std::int64_t> place = tokenizer.language_place();
  const std::int64_t at = place.value_or(0) < 0 ? std::ssize(ids) + *place : place.value_or(0);
  if (!place || at < 0 || at >= std::ssize(ids)) {
    throw BadInput("--source-lang", "the tokenizer does not mark texts with their language");
  }
  ids[static_cast<std::size_t>(at)] = language_token(tokenizer, language, "--source-lang");
}

std::string Detokenizer::push(std::int32_t id) {
  std::string bytes = tokenizer_->bytes_after(previous_, id);
  if (!tokenizer_->keeps_start(id)) previous_ = id;
  return bytes;
}

std::uint64_t tokenizer_fingerprint(const Tokenizer& tokenizer) {
  std::uint64_t state = 0xCBF29CE484222325;
  const auto fold = [&](std::uint64_t byte) { state = (state ^ byte) * 0x100000001B3; };
  const auto fold_number = [&](std::uint64_t number) {
    for (int i = 0; i < 8; ++i) fold(number >> (8 * i) & 0xFF);
  };
  fold_number(static_cast<std::uint64_t>(tokenizer.vocab_size()));
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece(static_cast<std::int32_t>(id));
    fold_number(piece.size());
    for (const char c : piece) fold(static_cast<unsigned char>(c));
  }
  constexpr std::string_view kText =
      "The quick brown fox, isn't it?  12345 = 3.14;\n\n\tfor (int i = 0; i < N; ++i) {}\r\n Straße, 東京, "
      "e\u0301\u00e9 😀 "
      "  ABC abc\n";
  for (const std::int32_t id : tokenizer.encode(kText, SpecialTokens::none)) {
    fold_number(static_cast<std::uint64_t>(id));
  }
  return state;
}

}  // namespace vitrine
