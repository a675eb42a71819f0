#include <algorithm>
#include <cctype>
#include <set>

#include "answer/learn.h"
#include "answer/marks.h"

namespace vitrine::answer {
namespace {

/// The first mark in a text, else the whole text. A word between two marks makes one of them.
std::string_view first_mark(std::string_view text) {
  text = stripped(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t size = mark_end(text.substr(i));
    if (size == 0) continue;
    std::size_t word = i + size;
    while (word < text.size() && std::isalpha(static_cast<unsigned char>(text[word])) != 0) ++word;
    const std::size_t next = word > i + size ? mark_end(text.substr(word)) : 0;
    if (next > 0) size = word + next - i;
    return text.substr(i, size);
  }
  return text;
}

/// The mark at the end of a prompt, in the same sense.
std::string_view prompt_mark(std::string_view prompt) {
  prompt = stripped(prompt);
  const std::string_view last = last_mark(prompt);
  if (last.empty()) return last;
  const std::string_view before = prompt.substr(0, prompt.size() - last.size());
  std::size_t word = before.size();
  while (word > 0 && std::isalpha(static_cast<unsigned char>(before[word - 1])) != 0) --word;
  const std::string_view first = word < before.size() ? last_mark(before.substr(0, word)) : std::string_view();
  if (first.empty() || !before.substr(0, word).ends_with(first)) return last;
  return prompt.substr(word - first.size());
}

/// The marks around a reasoning that the template writes.
std::optional<ReasoningFormat> written(Prober& prober, const Probe& probe, std::string_view next) {
  const std::optional<std::string> text = prober.answer(probe, {}, !probe.calls.empty());
  if (!text) return std::nullopt;
  const std::string_view all = *text;
  const std::size_t at = all.find(kReasoning);
  const std::size_t after = all.find(next);
  if (at == all.npos || after == all.npos || after < at) return std::nullopt;
  ReasoningFormat format;
  format.begin = stripped(all.substr(0, at));
  const std::size_t end = at + kReasoning.size();
  format.end = first_mark(all.substr(end, after - end));
  if (format.begin.empty()) format.begin = prompt_mark(*prober.prompt(!probe.calls.empty()));
  if (format.begin.empty() || format.end.empty() || format.begin == format.end) return std::nullopt;
  return format;
}

/// The marks whose contents the template removes from the content of an answer: models write them, and templates leave
/// out what earlier answers had between them.
std::optional<ReasoningFormat> removed(Prober& prober) {
  // The marks that end something in the template.
  const std::string_view source = prober.source().text;
  std::set<std::string> names;
  for (std::size_t at = source.find("</"); at != source.npos; at = source.find("</", at + 1)) {
    const std::size_t size = mark_end(source.substr(at));
    if (size > 3) names.emplace(source.substr(at + 2, size - 3));
  }
  for (const std::string& name : names) {
    const std::string begin = "<" + name + ">", end = "</" + name + ">";
    Probe probe;
    probe.content = begin + std::string(kReasoning) + end + std::string(kContent);
    const auto text = prober.answer(probe, {}, false);
    if (!text || text->find(kContent) == text->npos || text->find(kReasoning) != text->npos) continue;
    return ReasoningFormat{.begin = begin, .end = end};
  }
  return std::nullopt;
}

/// The prompts that a variable makes of one question.
std::set<std::string> prompts_by(Prober& prober, const std::string& variable) {
  std::set<std::string> prompts;
  static const OrderedJson kValues[] = {true, false, "low", "high", "none", "enabled", "disabled"};
  for (const OrderedJson& value : kValues) {
    if (auto prompt = prober.prompt_with(variable, value)) prompts.insert(std::move(*prompt));
  }
  return prompts;
}

/// The marks of a reasoning that prompts begin, or leave out by an empty one.
std::optional<ReasoningFormat> prompted(const std::set<std::string>& prompts) {
  std::set<std::string_view> last;
  for (const std::string& prompt : prompts) last.insert(last_mark(prompt));
  for (const std::string_view end : last) {
    if (!end.starts_with("</") && !end.starts_with("[/")) continue;
    const std::string begin = std::string(end.substr(0, 1)) + std::string(end.substr(2));
    const bool is_empty = std::ranges::any_of(prompts, [&](const std::string& prompt) {
      const std::string_view text = stripped(prompt);
      return text.ends_with(end) && stripped(text.substr(0, text.size() - end.size())).ends_with(begin);
    });
    if (!is_empty && !last.contains(begin)) continue;
    return ReasoningFormat{.begin = begin, .end = std::string(end)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ReasoningFormat> learn_reasoning(Prober& prober, const std::vector<std::string>& variables) {
  if (!prober.prompt(false)) return std::nullopt;
  const std::string reasoning(kReasoning);
  auto format = written(prober, {.reasoning = reasoning, .content = std::string(kContent)}, kContent);
  if (!format && prober.prompt(true)) {
    format = written(prober, {.reasoning = reasoning, .calls = {OrderedJson::object()}}, probe_name(0));
  }
  if (!format) format = removed(prober);
  std::vector<std::string> read;
  for (const std::string& name : variables) {
    if (name.find("think") == name.npos && name.find("reason") == name.npos) continue;
    const std::set<std::string> prompts = prompts_by(prober, name);
    if (prompts.size() > 1) read.push_back(name);
    if (!format) format = prompted(prompts);
  }
  if (format) {
    format->opens_in_prompt = stripped(*prober.prompt(false)).ends_with(format->begin);
    format->variables = read;
    const auto plain = prober.answer({.content = std::string(kContent)}, {}, false);
    format->always_ends = !format->opens_in_prompt || (plain && plain->find(format->end) != plain->npos);
  }
  return format;
}

}  // namespace vitrine::answer
