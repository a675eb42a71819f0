#include "chat/pair_prompt.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

/// Whether a template reads contents as lists of parts.
bool reads_parts(const std::string& source) {
  constexpr std::string_view kMarks[] = {"content[0]", ".type", "'type'", "\"type\"", "item.type", "message.content["};
  return std::any_of(std::begin(kMarks), std::end(kMarks),
                     [&](std::string_view mark) { return source.find(mark) != source.npos; });
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

}  // namespace vitrine
