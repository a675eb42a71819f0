#include "conversation/token_spans.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                    std::string_view text) {
  std::vector<std::size_t> ends;
  ends.reserve(ids.size());
  std::size_t at = 0;
  std::optional<std::int32_t> previous;
  for (const std::int32_t id : ids) {
    const std::string_view rest = text.substr(at);
    const std::string piece = tokenizer.piece(id);  // a control token has no bytes, but the text spells it
    bool fits = false;
    for (const std::string& spelled : {tokenizer.bytes_after(previous, id), tokenizer.bytes(id), piece}) {
      if (spelled.empty() || !rest.starts_with(spelled)) continue;
      at += spelled.size();
      fits = true;
      break;
    }
    if (!fits) {
      throw BadInput("template",
                     "the tokenizer changes the text, so marks cannot be found in it: use mask = "
                     "\"difference\"");
    }
    ends.push_back(at);
    previous = id;
  }
  if (at != text.size()) {
    throw BadInput("template",
                   "the tokenizer drops parts of the text, so marks cannot be found in it: use mask = "
                   "\"difference\"");
  }
  return ends;
}

void learn_span(std::string_view text, std::size_t begin, std::size_t end, const std::vector<std::size_t>& ends,
                std::vector<std::uint8_t>& learned) {
  if (begin >= text.size() || end == 0) return;
  const auto token_at = [&](std::size_t byte) {
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), byte) - ends.begin());
  };
  std::size_t last = end - 1;  // the first byte of the last character
  while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
  const std::size_t first_token = token_at(begin);
  const std::size_t last_token = token_at(last);
  const std::size_t stop = last_token + 1;
  for (std::size_t i = first_token; i < std::min(stop, learned.size()); ++i) learned[i] = 1;
}

std::optional<std::int32_t> end_of_answer(const ChatTemplate& chat_template,
                                          const std::vector<std::pair<std::string, std::string>>& special_tokens,
                                          const Tokenizer& tokenizer) {
  constexpr std::string_view kAnswer = "anANSWERan";
  const TemplateData messages = TemplateData::parse(
      R"([{"role": "user", "content": "question"}, {"role": "assistant", "content": "anANSWERan"}])", "messages");
  TemplateInput input;
  input.messages = &messages.value();
  input.special_tokens = special_tokens;
  try {
    const std::string text = chat_template.render(input).text;
    const std::size_t place = text.rfind(kAnswer);
    if (place == text.npos) return std::nullopt;
    const std::string_view after = std::string_view(text).substr(place + kAnswer.size());
    const auto ids = tokenizer.encode(after, SpecialTokens::written);
    if (ids.empty()) return std::nullopt;
    const std::string piece = tokenizer.piece(ids.front());
    const bool is_special = after.starts_with(piece) &&
                            tokenizer.encode(piece, SpecialTokens::none) != std::vector<std::int32_t>{ids.front()};
    if (is_special) return ids.front();
  } catch (const BadInput&) {
    // The template refuses this conversation.
  }
  return std::nullopt;
}

}  // namespace vitrine
