#include "chat/chat_answers.h"

#include "base/error.h"
#include "base/rng.h"
#include "constrain/sources.h"

namespace vitrine {
namespace {

using Calls = answer::AnswerRules::Calls;
using answer::ReasoningPlace;

std::vector<std::int32_t> special_tokens_of(const answer::AnswerFormat& format, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> special;
  for (const std::string& text : answer::texts_of(format)) {
    for (const std::int32_t id : tokenizer.encode(text, SpecialTokens::written)) {
      if (tokenizer.bytes(id).empty()) special.push_back(id);
    }
  }
  return special;
}

/// The grammar of the answers, unless they may be any text that the constraint of the request, if any, permits.
std::shared_ptr<const constrain::Constraint> constraint_of_answers(const answer::AnswerFormat& format,
                                                                   ReasoningPlace place, const AnswerWishes& wishes,
                                                                   const GenerateOptions& given,
                                                                   constrain::ConstraintCache& cache) {
  const std::optional<constrain::Source> content = constraint_of(given);
  const bool may_call = format.calls && wishes.has_tools;
  if (!may_call && !(content && place != ReasoningPlace::nowhere)) return nullptr;
  const std::string key =
      fmt::format("answer {} {} {} {};{}{}", static_cast<int>(place), static_cast<int>(wishes.rules.calls),
                  wishes.rules.may_have_several, fmt::join(*given.stop_ids, " "),
                  may_call ? wishes.rules.tools.dump() : "", content ? content->key() : "");
  return cache.get("answer", key, [&] {
    answer::AnswerRules rules = wishes.rules;
    if (content) rules.content = constrain::parse_source(*content, *cache.vocabulary());
    return answer::answer_grammar(format, place, rules, *cache.vocabulary(), *given.stop_ids);
  });
}

}  // namespace

std::shared_ptr<const ChatAnswers> chat_answers(const ChatFormat& chat, const RequestDefaults& model,
                                                const AnswerWishes& wishes, const GenerateOptions& given,
                                                std::string prompt) {
  const answer::AnswerFormat& format = chat.answers();
  const bool may_call = wishes.rules.calls != Calls::none;
  if (may_call && !format.calls) throw Unsupported("tools", "the model's calls are not known: {}", format.reason);
  ChatAnswers answers{.format = format, .prompt = std::move(prompt)};
  const ReasoningPlace place = answer::reasoning_place(format, answers.prompt);
  answers.constraint = constraint_of_answers(format, place, wishes, given, *model.constraints);
  const std::int64_t budget = given.thinking_budget.value_or(-1);
  if (budget >= 0 && place != ReasoningPlace::nowhere) {
    const answer::ReasoningFormat& own = *format.reasoning;
    answers.budget = {budget, own.begin, own.end, chat.tokenizer().encode(own.end, SpecialTokens::written),
                      place == ReasoningPlace::prompt};
  }
  answers.is_open = !constraint_of(given) && wishes.rules.calls != Calls::must;
  if (may_call) answers.tools = wishes.rules.tools;
  if (!may_call) answers.format.calls.reset();
  answers.shown = special_tokens_of(answers.format, chat.tokenizer());
  if (wishes.keeps_reasoning) answers.format.reasoning.reset();
  const bool is_plain = !may_call && !answers.format.reasoning && !answers.budget && answers.constraint == nullptr;
  if (is_plain && answers.shown.empty()) return nullptr;
  return std::make_shared<const ChatAnswers>(std::move(answers));
}

void ChatAnswers::apply_to(GenerateRequest& request, const GenerateOptions& given, const RequestDefaults& model) const {
  request.shown = shown;
  request.reasoning = budget;
  if (constraint != nullptr) request.answer.constraint = constraint;
  request.answer.must_finish = !given.no_must_finish;
  request.answer.is_open = is_open;
  if (given.fast_forward) request.answer.fast_forward = model.constraints->tokens();
}

std::optional<OrderedJson> input_of(const answer::AnswerDelta::Call& call) {
  if (call.arguments.empty()) return OrderedJson::object();
  OrderedJson input = OrderedJson::parse(call.arguments, nullptr, false);
  if (!input.is_object()) return std::nullopt;
  return input;
}

std::int64_t ChatAnswers::n_reasoning(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) const {
  const ReasoningPlace place = answer::reasoning_place(format, prompt);
  if (place == ReasoningPlace::nowhere) return 0;
  const ReasoningBudget unlimited{.begin = format.reasoning->begin,
                                  .end = format.reasoning->end,
                                  .end_ids = {},
                                  .has_begun = place == ReasoningPlace::prompt};
  ReasoningCounter counter(unlimited);
  std::int64_t n = 0;
  for (const std::int32_t id : ids) {
    const bool was_inside = counter.is_inside();
    if (id < tokenizer.vocab_size()) {
      const std::string bytes = tokenizer.bytes(id);
      counter.append(bytes.empty() ? tokenizer.piece(id) : bytes);
    }
    ++n;
    if (counter.is_over()) return was_inside ? n : 0;
  }
  return counter.is_inside() ? n : 0;
}

std::string ChatAnswers::call_id(std::uint64_t seed, std::size_t sequence, std::size_t index) const {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  constexpr int kStream = 1;  // 0 draws tokens
  const bool is_short = format.calls && format.calls->has_short_ids;
  std::string id = is_short ? "" : "call_";
  for (std::size_t i = 0; i < (is_short ? 9U : 24U); ++i) {
    const double draw = uniform(~seed, sequence, 32 * index + i, kStream);
    id += kLetters[static_cast<std::size_t>(draw * static_cast<double>(kLetters.size()))];
  }
  return id;
}

}  // namespace vitrine
