#include "generate/text_windows.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

PlacedIds part_of(const PlacedIds& all, std::int64_t begin, std::int64_t end) {
  PlacedIds part;
  part.ids.assign(all.ids.begin() + begin, all.ids.begin() + end);
  part.places.assign(all.places.begin() + begin, all.places.begin() + end);
  part.words.assign(all.words.begin() + begin, all.words.begin() + end);
  return part;
}

}  // namespace

std::vector<PlacedTexts> windows_of(const Tokenizer& tokenizer, const std::string& text,
                                    const std::optional<std::string>& question, const WindowOptions& o) {
  const PlacedIds own = tokenizer.encode_placed(text, o.policy);
  std::optional<PlacedIds> first;
  if (question) first = tokenizer.encode_placed(*question, o.policy);
  const auto joined = [&](const PlacedIds& part) {
    return tokenizer.with_template(first ? *first : part, first ? &part : nullptr, o.policy);
  };
  const auto n = static_cast<std::int64_t>(own.ids.size());
  const std::int64_t room = o.most - std::ssize(joined({}).ids);
  if (n <= room) return {joined(own)};
  const std::int64_t step = room - o.stride.value_or(0);
  if (step <= 0) {
    throw BadInput(question ? "--question" : "--stride",
                   "the model reads {} tokens, which leaves {} for the text in a window: expected more than the stride "
                   "of {}",
                   o.most, std::max<std::int64_t>(room, 0), o.stride.value_or(0));
  }
  std::vector<PlacedTexts> windows;
  for (std::int64_t begin = 0, end = 0; end < n && (windows.empty() || o.stride); begin += step) {
    end = std::min(begin + room, n);
    windows.push_back(joined(part_of(own, begin, end)));
  }
  windows.front().is_cut = !o.stride;
  return windows;
}

PlacedTexts whole_text(const Tokenizer& tokenizer, const std::string& text, const std::optional<std::string>& pair,
                       const WindowOptions& o) {
  if (!pair) return windows_of(tokenizer, text, {}, {o.most, {}, o.policy}).front();
  const PlacedIds first = tokenizer.encode_placed(text, o.policy), second = tokenizer.encode_placed(*pair, o.policy);
  const PlacedIds nothing;
  const std::int64_t room = o.most - std::ssize(tokenizer.with_template(nothing, &nothing, o.policy).ids);
  if (room < 2) throw BadInput("text", "expected room for a token of each text, got {} tokens for a pair", o.most);
  const auto [a, b] = longest_first(first.ids.size(), second.ids.size(), static_cast<std::size_t>(room));
  const PlacedIds rest = part_of(second, 0, static_cast<std::int64_t>(b));
  PlacedTexts result = tokenizer.with_template(part_of(first, 0, static_cast<std::int64_t>(a)), &rest, o.policy);
  result.is_cut = a < first.ids.size() || b < second.ids.size();
  return result;
}

void WindowTexts::add(const PlacedTexts& window, bool is_typed) {
  ids.push_back(window.ids);
  types.push_back(is_typed ? window.types : std::vector<std::int32_t>());
}

}  // namespace vitrine
