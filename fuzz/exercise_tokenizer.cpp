#include "exercise_tokenizer.h"

#include <string>
#include <vector>

#include "fuzzing.h"

namespace vitrine::fuzz {
namespace {

constexpr std::size_t kMaxTextBytes = 1024;
constexpr std::string_view kMark = "#text";
/// Words, spaces, UTF-8 of two and four bytes, invalid UTF-8, and the spellings of special tokens.
constexpr std::string_view kText =
    "the caf\xC3\xA9 <s>\xFF\xF0\x9F\xA6\x99 ab  12</s>\n<0x41><|endoftext|>\xE2\x96\x81";

/// Whether piece() refuses the id.
bool is_refused(const Tokenizer& tokenizer, std::int32_t id) {
  try {
    tokenizer.piece(id);
  } catch (const BadInput&) {
    return true;
  }
  return false;
}

void exercise(const Tokenizer& tokenizer, std::string_view text) {
  for (const SpecialTokens policy : {SpecialTokens::apply, SpecialTokens::none}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text, policy);
    std::string joined;
    Detokenizer detokenizer(tokenizer);
    for (const std::int32_t id : ids) {
      expect(id >= 0 && id < tokenizer.vocab_size(), "encode gives ids of the vocabulary");
      tokenizer.piece(id);
      tokenizer.bytes(id);
      joined += detokenizer.push(id);
    }
    expect(tokenizer.decode(ids) == joined, "ids decode at once to what they decode to one by one");
    expect(tokenizer.encode(text, policy) == ids, "a text has the same ids the second time");
  }
}

}  // namespace

int fuzz_tokenizer(std::string_view input,
                   const std::function<std::unique_ptr<const Tokenizer>(std::string_view file)>& parse) {
  return answer([&] {
    const auto [file, after] = cut(input, kMark);
    const std::unique_ptr<const Tokenizer> tokenizer = parse(file);
    expect(is_refused(*tokenizer, -1) && is_refused(*tokenizer, static_cast<std::int32_t>(tokenizer->vocab_size())),
           "ids beyond the vocabulary are refused");
    const std::string_view text = (after.empty() ? file : after).substr(0, kMaxTextBytes);
    exercise(*tokenizer, text);
    exercise(*tokenizer, kText);
    if (&tokenizer->target() == tokenizer.get()) return;
    exercise(tokenizer->target(), text);
    exercise(tokenizer->target(), kText);
  });
}

}  // namespace vitrine::fuzz
