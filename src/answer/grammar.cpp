#include "answer/grammar.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "answer/marks.h"
#include "answer/tools.h"
#include "base/error.h"
#include "constrain/free_text.h"
#include "constrain/sources.h"

namespace vitrine::answer {
namespace {

using constrain::Expr;
using constrain::Grammar;
using constrain::kUnlimited;

constexpr int kMaxNumberedCalls = 16;

/// What begins a mark of a format, by which a text is known to be one.
std::string first_mark(const std::string& text) {
  const std::size_t size = mark_end(text);
  return size > 0 ? text.substr(0, size) : text;
}

class AnswerWriter {
 public:
  AnswerWriter(const AnswerFormat& format, const AnswerRules& rules, const constrain::Vocabulary& vocabulary,
               std::span<const std::int32_t> stop_ids)
      : format_(format),
        rules_(rules),
        tools_(declared_tools(rules.tools)),
        vocabulary_(vocabulary),
        stop_ids_(stop_ids) {
    white_space_ = grammar_.repeat(grammar_.set(constrain::CharSet::of_any(" \t\r\n")), 0, 8);
  }

  Grammar write(ReasoningPlace reasoning) {
    const constrain::RuleId root = grammar_.add_rule("answer");
    grammar_.root = root;
    const Expr after = grammar_.named("after reasoning", after_reasoning());
    grammar_.define(root, reasoning != ReasoningPlace::nowhere ? with_reasoning(reasoning, after) : after);
    return std::move(grammar_);
  }

 private:
  /// A text of the format, in which special tokens are themselves.
  Expr literal(std::string_view text) { return literal(grammar_, text); }
  Expr literal(Grammar& grammar, std::string_view text) const {
    std::vector<Expr> parts;
    std::string plain;
    while (!text.empty()) {
      const std::int32_t id = vocabulary_.special_at(text);
      if (id < 0) {
        plain += text[0];
        text.remove_prefix(1);
        continue;
      }
      if (ends_answer(id)) {
        throw Unsupported("tools", "the chat template writes {} within answers, a token that ends them",
                          vocabulary_.piece(id));
      }
      if (!plain.empty()) parts.push_back(grammar.text(std::exchange(plain, {})));
      parts.push_back(grammar.token({{id}}));
      text.remove_prefix(vocabulary_.piece(id).size());
    }
    if (!plain.empty()) parts.push_back(grammar.text(plain));
    return grammar.sequence(std::move(parts));
  }

  bool ends_answer(std::int32_t id) const {
    return vocabulary_.is_stop(id) || std::ranges::find(stop_ids_, id) != stop_ids_.end();
  }

  bool has_special(std::string_view text) const {
    for (; !text.empty(); text.remove_prefix(1)) {
      if (vocabulary_.special_at(text) >= 0) return true;
    }
    return false;
  }

  Expr with_reasoning(ReasoningPlace place, Expr after) {
    const ReasoningFormat& own = *format_.reasoning;
    const std::string marks[] = {first_mark(own.end)};
    const Expr free = grammar_.named("reasoning", constrain::text_without(grammar_, marks));
    const Expr end = literal(own.end);
    const Expr whole = grammar_.sequence({free, end, after});
    // An answer that may be any text may also end within its reasoning.
    const bool is_free = rules_.calls != AnswerRules::Calls::must && !rules_.content;
    const Expr open = is_free ? grammar_.choice({whole, free}) : whole;
    if (place == ReasoningPlace::prompt) return open;
    const Expr begun = grammar_.sequence({white_space_, literal(own.begin), open});
    return grammar_.choice({begun, grammar_.sequence({white_space_, end, after}), after});
  }

  Expr after_reasoning() {
    using Calls = AnswerRules::Calls;
    if (rules_.calls == Calls::must) return grammar_.sequence({white_space_, calls()});
    const Expr own = grammar_.named("content", content());
    if (rules_.calls == Calls::none) return own;
    return grammar_.choice({own, grammar_.sequence({white_space_, calls()}), content_and_calls(own)});
  }

  Expr content_and_calls(Expr content) {
    if (format_.calls->only_first) return grammar_.never();
    return grammar_.sequence({content, calls()});
  }

  /// A content, and what the template may write before it.
  Expr content() {
    if (rules_.content) {
      const Expr own = grammar_.append(*rules_.content);
      std::vector<Expr> leads{grammar_.empty()};
      for (const std::string& lead : format_.content_leads) leads.push_back(literal(lead));
      return grammar_.sequence({white_space_, grammar_.choice(std::move(leads)), own});
    }
    std::vector<std::string> marks;
    if (format_.reasoning) marks.push_back(first_mark(format_.reasoning->begin));
    const bool is_first = format_.calls && format_.calls->only_first;
    if (format_.calls && !is_first) {
      for (const std::string& begin : format_.calls->begins) marks.push_back(first_mark(begin));
    }
    Expr free = marks.empty() ? grammar_.repeat(grammar_.set(constrain::CharSet::all()), 0, kUnlimited)
                              : constrain::text_without(grammar_, marks);
    if (is_first) free = constrain::text_not_beginning(grammar_, format_.calls->begins);
    std::vector<Expr> ways{free};
    for (const std::string& lead : format_.content_leads) {
      if (has_special(lead)) ways.push_back(grammar_.sequence({white_space_, literal(lead), free}));
    }
    return grammar_.choice(std::move(ways));
  }

  /// All calls, from what begins the first one on.
  Expr calls() {
    if (known_calls_) return *known_calls_;
    const CallFormat& own = *format_.calls;
    std::vector<Expr> begins;
    for (const std::string& begin : own.begins) begins.push_back(literal(begin));
    const bool is_numbered = own.has(CallPart::Kind::index);
    Expr all = call(0);
    if (own.between && rules_.may_have_several && !is_numbered) {
      all = grammar_.sequence({all, grammar_.repeat(grammar_.sequence({literal(*own.between), all}), 0, kUnlimited)});
    } else if (own.between && rules_.may_have_several) {
      Expr more = grammar_.empty();
      for (int i = kMaxNumberedCalls; i-- > 1;) {
        more = grammar_.optional(grammar_.sequence({literal(*own.between), call(i), more}));
      }
      all = grammar_.sequence({all, more});
    }
    known_calls_ = grammar_.named("calls", grammar_.sequence({grammar_.choice(std::move(begins)), all, closing()}));
    return *known_calls_;
  }

  /// What ends the calls, up to a token that ends the answer.
  Expr closing() {
    std::string_view text = format_.calls->closing;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const std::int32_t id = vocabulary_.special_at(text.substr(at));
      if (id >= 0 && ends_answer(id)) text = text.substr(0, at);
    }
    return literal(text);
  }

  /// Call number `i`, of any tool.
  Expr call(int i) {
    std::vector<Expr> ways;
    for (const DeclaredTool& tool : tools_) {
      std::vector<Expr> parts;
      for (const CallPart& part : format_.calls->parts) parts.push_back(part_of(part, tool, i));
      ways.push_back(grammar_.sequence(std::move(parts)));
    }
    return grammar_.named("call", grammar_.choice(std::move(ways)));
  }

  Expr part_of(const CallPart& part, const DeclaredTool& tool, int i) {
    switch (part.kind) {
      case CallPart::Kind::name:
        return grammar_.text(tool.name);
      case CallPart::Kind::id: {
        const constrain::CharSet letters = constrain::word_characters() - constrain::CharSet::of('_');
        return grammar_.repeat(grammar_.set(letters), 9, 9);
      }
      case CallPart::Kind::index:
        return grammar_.text(std::to_string(i));
      case CallPart::Kind::arguments:
        return arguments(tool);
      default:
        return literal(part.text);
    }
  }

  Expr arguments(const DeclaredTool& tool) {
    const auto [known, is_new] = arguments_.try_emplace(tool.name, -1);
    if (!is_new) return known->second;
    const ArgumentsFormat& own = format_.calls->arguments;
    std::function<constrain::Notation(Grammar&)> notation;
    if (own.kind != ArgumentsFormat::Kind::json) {
      notation = [&](Grammar& grammar) { return notation_of(own, grammar); };
    }
    try {
      if (!tool.is_strict && can_name_members()) {
        return known->second = grammar_.append(constrain::parse_arguments(R"({"type":"object"})", notation));
      }
      return known->second = grammar_.append(constrain::parse_arguments(tool.parameters.dump(), notation));
    } catch (const Unsupported& e) {
      throw Unsupported("tools", "tool \"{}\": {}", tool.name, e.what());
    } catch (const Error& e) {
      throw BadInput("tools", "tool \"{}\": {}", tool.name, e.what());
    }
  }

  /// Whether arguments may have other names than those of a schema: not where a name is written twice.
  bool can_name_members() const {
    const auto n_keys = [](const Container& own) {
      return std::ranges::count(own.of_other, CallPart::Kind::key, &CallPart::kind);
    };
    const ArgumentsFormat& own = format_.calls->arguments;
    const bool is_nested = own.notation.kind == Notation::Kind::nested;
    return n_keys(own.members) <= 1 && (!is_nested || n_keys(own.notation.object) <= 1);
  }

  constrain::Notation notation_of(const ArgumentsFormat& own, Grammar& grammar) {
    constrain::Notation notation;
    const auto last = std::ranges::find(format_.calls->parts, CallPart::Kind::arguments, &CallPart::kind);
    const bool is_last = std::next(last) == format_.calls->parts.end();
    notation.members = container(own.members, is_last ? format_.calls->closing : std::next(last)->text, grammar);
    if (own.notation.kind == Notation::Kind::nested) {
      notation.list = container(own.notation.list, own.notation.list.close, grammar);
      notation.object = container(own.notation.object, own.notation.object.close, grammar);
    }
    return notation;
  }

  /// `after`: what follows the elements.
  constrain::ContainerNotation container(const Container& own, std::string_view after, Grammar& grammar) {
    constrain::ContainerNotation notation;
    const auto element = [&](const std::vector<CallPart>& parts) -> constrain::ContainerNotation::Element {
      return [this, &parts, &grammar](std::optional<Expr> key, Expr value) {
        std::vector<Expr> all;
        for (const CallPart& part : parts) {
          if (part.kind == CallPart::Kind::text) {
            all.push_back(literal(grammar, part.text));
          } else {
            all.push_back(part.kind == CallPart::Kind::key ? key.value_or(grammar.empty()) : value);
          }
        }
        return grammar.sequence(std::move(all));
      };
    };
    if (!own.of_text.empty()) notation.of_text = element(own.of_text);
    notation.of_other = element(own.of_other);
    const auto value = std::ranges::find(own.of_text, CallPart::Kind::value, &CallPart::kind);
    const bool is_ended = value != own.of_text.end() && std::next(value) != own.of_text.end();
    notation.text_ends =
        is_ended ? std::vector{std::next(value)->text} : std::vector{own.separator, std::string(after)};
    std::erase(notation.text_ends, "");
    const auto& parts = own.of_other;
    const auto key = std::ranges::find(parts, CallPart::Kind::key, &CallPart::kind);
    const bool is_once = std::ranges::count(parts, CallPart::Kind::key, &CallPart::kind) == 1;
    if (is_once && std::next(key) != parts.end()) notation.key_end = std::next(key)->text;
    notation.open = literal(grammar, own.open);
    notation.separator = literal(grammar, own.separator);
    notation.close = literal(grammar, own.close);
    notation.empty = own.empty ? literal(grammar, *own.empty) : grammar.never();
    return notation;
  }

  const AnswerFormat& format_;
  const AnswerRules& rules_;
  std::vector<DeclaredTool> tools_;
  const constrain::Vocabulary& vocabulary_;
  std::span<const std::int32_t> stop_ids_;
  Grammar grammar_;
  Expr white_space_;
  std::optional<Expr> known_calls_;
  std::map<std::string, Expr> arguments_;
};

}  // namespace

ReasoningPlace reasoning_place(const AnswerFormat& format, std::string_view prompt) {
  if (!format.reasoning) return ReasoningPlace::nowhere;
  if (has_begun(*format.reasoning, prompt)) return ReasoningPlace::prompt;
  return right_stripped(prompt).ends_with(right_stripped(format.reasoning->end)) ? ReasoningPlace::nowhere
                                                                                 : ReasoningPlace::answer;
}

std::vector<std::string> texts_of(const AnswerFormat& format) {
  std::vector<std::string> texts = format.content_leads;
  if (format.reasoning) texts.insert(texts.end(), {format.reasoning->begin, format.reasoning->end});
  if (!format.calls) return texts;
  const CallFormat& calls = *format.calls;
  texts.insert(texts.end(), calls.begins.begin(), calls.begins.end());
  texts.insert(texts.end(), {calls.between.value_or(""), calls.closing});
  const auto add = [&](const std::vector<CallPart>& parts) {
    for (const CallPart& part : parts) texts.push_back(part.text);
  };
  add(calls.parts);
  for (const Container* own :
       {&calls.arguments.members, &calls.arguments.notation.list, &calls.arguments.notation.object}) {
    texts.insert(texts.end(), {own->empty.value_or(""), own->open, own->separator, own->close});
    add(own->of_text);
    add(own->of_other);
  }
  std::erase(texts, "");
  return texts;
}

Grammar answer_grammar(const AnswerFormat& format, ReasoningPlace reasoning, const AnswerRules& rules,
                       const constrain::Vocabulary& vocabulary, std::span<const std::int32_t> stop_ids) {
  if (rules.calls != AnswerRules::Calls::none) {
    if (!format.calls) throw BadInput("tools", "{}", format.reason);
    if (declared_tools(rules.tools).empty()) throw BadInput("tools", "expected at least one tool");
  }
  return AnswerWriter(format, rules, vocabulary, stop_ids).write(reasoning);
}

}  // namespace vitrine::answer
