#include "chat/pair_prompt.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace vitrine {
namespace {

/// Whether a template reads contents as lists of parts.
bool reads_parts(const std::string& source) {
  constexpr std::string_view kMarks[] = {"content[0]", ".type", "'type'", "\"type\"", "item.type", "message.content["};
  return std::any_of(std::begin(kMarks), std::end(kMarks),
                     [&](std::string_view mark) { return source.find(mark) != source.npos; });
}

/// A part of a rendering that is a part of a text, in characters.
struct TextPart {
  std::int8_t text = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t first = 0;  ///< The first character, in the text.

  TextPlace place_in_text(TextPlace place) const {
    const auto inside = [&](std::uint32_t at) {
      return static_cast<std::uint32_t>(std::clamp<std::int64_t>(at, begin, end) - begin + first);
    };
    return {inside(place.begin), inside(place.end)};
  }
};

std::int64_t n_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

/// The parts [begin, end) of a rendering, in bytes, that the template has not written itself.
std::vector<std::pair<std::size_t, std::size_t>> given_parts(const RenderedTemplate& rendered) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  std::size_t at = 0;
  const auto add = [&](std::size_t end) {
    if (at < end) parts.emplace_back(at, end);
  };
  for (const auto& [begin, end] : rendered.literal) {
    add(static_cast<std::size_t>(begin));
    at = static_cast<std::size_t>(end);
  }
  add(rendered.text.size());
  return parts;
}

/// Where a rendering has the query and the document: a part that equals one of them, else one that is within it, as
/// after `trim`.
std::vector<TextPart> text_parts(const RenderedTemplate& rendered, const std::string& prompt, const std::string& query,
                                 const std::string& document) {
  const std::array<const std::string*, 3> texts = {&query, &document, &prompt};
  std::array<bool, 3> is_found{query.empty(), document.empty(), prompt.empty()};
  std::vector<TextPart> parts;
  const auto take = [&](std::size_t begin, std::string_view part, bool whole) {
    for (const std::size_t i : {2U, 0U, 1U}) {  // the prompt comes first
      const std::size_t at = texts[i]->find(part);
      if (is_found[i] || at == std::string::npos || (whole && part.size() != texts[i]->size())) continue;
      is_found[i] = true;
      const std::int64_t first = n_characters(std::string_view(rendered.text).substr(0, begin));
      const std::int64_t before = n_characters(std::string_view(*texts[i]).substr(0, at));
      if (i < 2) parts.push_back({static_cast<std::int8_t>(i), first, first + n_characters(part), before});
      return true;
    }
    return false;
  };
  for (const auto& [begin, end] : given_parts(rendered)) {
    const std::string_view part = std::string_view(rendered.text).substr(begin, end - begin);
    if (!take(begin, part, true)) take(begin, part, false);
  }
  if (is_found[0] && is_found[1]) return parts;
  throw Unsupported("chat template", "it does not write the {} as it is, so its words have no places",
                    is_found[0] ? "document" : "query");
}

}  // namespace

PairPrompt::PairPrompt(const ChatTemplates& templates, const Tokenizer& tokenizer, const std::string& where,
                       std::optional<bool> has_parts)
    : special_tokens_(templates.special_tokens),
      tokenizer_(&tokenizer),
      template_(templates.choose(false, where)),
      is_structured_(has_parts.value_or(reads_parts(templates.choose(false, where)))) {
  const std::string base = render("", "alpha", "bravo").text;
  const bool has_query = render("", "charlie", "bravo").text != base;
  if (has_query && render("", "alpha", "foxtrot").text != base) return;
  throw Unsupported(where, "the chat template does not write messages with the role {}",
                    has_query ? "document" : "query");
}

RenderedTemplate PairPrompt::render(const std::string& prompt, const std::string& query,
                                    const std::string& document) const {
  OrderedJson messages = OrderedJson::array();
  const auto add = [&](const char* role, const std::string& text) {
    OrderedJson content = text;
    if (is_structured_) content = OrderedJson::array({{{"type", "text"}, {"text", text}}});
    messages.push_back({{"role", role}, {"content", std::move(content)}});
  };
  if (!prompt.empty()) add("system", prompt);
  add("query", query);
  add("document", document);
  const std::string json = messages.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  const TemplateData data = TemplateData::parse(json, "messages");
  TemplateInput input;
  input.messages = &data.value();
  input.special_tokens = special_tokens_;
  input.now = TemplateClock::now();
  input.reports_literal = true;
  return template_.render(input);
}

std::vector<std::int32_t> PairPrompt::ids_of(const std::string& prompt, const std::string& query,
                                             const std::string& document) const {
  const RenderedTemplate rendered = render(prompt, query, document);
  return tokenizer_->encode_trusted(rendered.text, rendered.literal);
}

std::vector<std::int32_t> PairPrompt::suffix_of(const std::string& prompt) const {
  const std::vector<std::int32_t> a = ids_of(prompt, "0", "0"), b = ids_of(prompt, "1 2 3 4", "1 2 3 4");
  const auto n = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin();
  if (n >= std::min(std::ssize(a), std::ssize(b))) return {};
  return {a.end() - n, a.end()};
}

PairEncoding PairPrompt::encode(const std::string& prompt, const std::string& query, const std::string& document,
                                std::optional<std::int64_t> most) const {
  PairEncoding encoding;
  encoding.ids = ids_of(prompt, query, document);
  if (!most || *most == 0 || std::ssize(encoding.ids) < *most) return encoding;
  encoding.is_cut = std::ssize(encoding.ids) > *most;
  encoding.ids.resize(static_cast<std::size_t>(*most));
  const std::vector<std::int32_t> suffix = suffix_of(prompt);
  const std::int64_t n = std::min(std::ssize(suffix), *most);
  std::copy(suffix.end() - n, suffix.end(), encoding.ids.end() - n);
  return encoding;
}

PlacedTexts PairPrompt::encode_placed(const std::string& prompt, const std::string& query, const std::string& document,
                                      std::optional<std::int64_t> most) const {
  const PairEncoding read = encode(prompt, query, document, most);
  const RenderedTemplate rendered = render(prompt, query, document);
  PlacedIds placed = tokenizer_->encode_placed(rendered.text, SpecialTokens::written);
  const std::size_t n = read.ids.size();
  const std::size_t n_same = static_cast<std::size_t>(
      std::mismatch(read.ids.begin(), read.ids.end(), placed.ids.begin(), placed.ids.end()).first - read.ids.begin());
  const std::size_t n_suffix = read.is_cut ? suffix_of(prompt).size() : 0;
  if (n_same + n_suffix < n) {
    throw Unsupported("chat template", "a text spells a special token, so its words have no places");
  }
  const std::vector<TextPart> parts = text_parts(rendered, prompt, query, document);
  PlacedTexts result;
  result.ids = read.ids;
  result.is_cut = read.is_cut;
  result.texts.assign(n, -1);
  result.places.resize(n);
  result.words.assign(n, -1);
  for (std::size_t i = 0; i + n_suffix < n; ++i) {
    const TextPlace place = placed.places[i];
    for (const TextPart& part : parts) {
      if (place.begin >= part.end || place.end <= part.begin) continue;
      result.texts[i] = part.text;
      result.words[i] = placed.words[i];
      result.places[i] = part.place_in_text(place);
      break;
    }
  }
  return result;
}

}  // namespace vitrine
