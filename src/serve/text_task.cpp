#include "serve/text_task.h"

namespace vitrine {
namespace {

using Part = TextRound::Part;

void read_parts(GenerateContext context, std::span<const Part> parts) {
  const TextTask& first = *parts.front().task;
  if (first.modifiers()) context.modifiers = *first.modifiers();
  if (first.model() != nullptr) context.model = first.model();
  std::vector<std::vector<std::int32_t>> ids, types;
  std::vector<TextMarks> marks;
  std::vector<std::pair<TextTask*, std::size_t>> places;
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < part.n; ++i) {
      ids.push_back(part.task->next_ids(i));
      types.push_back(part.task->next_types(i));
      marks.push_back(part.task->next_marks(i));
      places.emplace_back(part.task.get(), i);
    }
  }
  first.reading().read(context, {ids, types, marks}, [&](std::size_t i, std::span<const float> values) {
    places[i].first->receive(places[i].second, values);
  });
  for (const Part& part : parts) part.task->advance(part.n);
}

}  // namespace

TextTask::TextTask(std::size_t client, std::vector<std::vector<std::int32_t>> texts,
                   std::vector<std::vector<std::int32_t>> types, std::optional<ModifierList> modifiers,
                   TextReading reading, std::function<void()> notify, std::vector<TextMarks> marks,
                   std::shared_ptr<const Model> model)
    : client_(client),
      texts_(std::move(texts)),
      types_(std::move(types)),
      marks_(std::move(marks)),
      modifiers_(std::move(modifiers)),
      model_(std::move(model)),
      reading_(std::move(reading)),
      notify_(std::move(notify)),
      values_(texts_.size()) {
  for (const std::vector<std::int32_t>& text : texts_) {
    waiting_bytes_ += static_cast<std::int64_t>(text.size() * sizeof(std::int32_t));
  }
}

bool TextTask::shares_with(const TextTask& other) const {
  return !reading_.kind.empty() && reading_.kind == other.reading_.kind && modifiers_ == other.modifiers_ &&
         model_ == other.model_;
}

std::size_t TextTask::n_next(std::int64_t n_rows, bool at_least_one) const {
  std::size_t n = 0;
  std::int64_t n_tokens = 0;
  for (; n_done_ + n < texts_.size(); ++n) {
    n_tokens += std::ssize(texts_[n_done_ + n]);
    if (n_tokens > n_rows && (n > 0 || !at_least_one)) break;
  }
  return n;
}

void TextTask::advance(std::size_t n) {
  n_done_ += n;
  if (n_done_ < texts_.size()) return;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    times_.ended = ServerClock::now();
  }
  notify_();
}

void TextTask::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  notify_();
}

void TextTask::mark_admitted() {
  const std::lock_guard lock(mutex_);
  if (!times_.admitted) times_.admitted = ServerClock::now();
}

TextRound next_text_round(const std::list<std::shared_ptr<TextTask>>& tasks, std::int64_t n_rows) {
  TextRound round;
  for (const std::shared_ptr<TextTask>& task : tasks) {
    const bool is_first = round.parts.empty();
    if (!is_first && round.n_tokens >= n_rows) break;
    if (!is_first && !task->shares_with(*round.parts.front().task)) continue;
    const std::size_t n = task->n_next(n_rows - round.n_tokens, is_first);
    if (n == 0) continue;
    for (std::size_t i = 0; i < n; ++i) round.n_tokens += std::ssize(task->next_ids(i));
    round.n_texts += static_cast<std::int64_t>(n);
    task->mark_admitted();
    round.parts.push_back({task, n});
  }
  return round;
}

void read_text_round(const GenerateContext& context, const TextRound& round) {
  const auto read_or_fail = [&](std::span<const Part> some) {
    try {
      read_parts(context, some);
      return true;
    } catch (...) {
      if (some.size() == 1) some.front().task->fail(std::current_exception());
      return false;
    }
  };
  if (read_or_fail(round.parts) || round.parts.size() == 1) return;
  for (const Part& part : round.parts) read_or_fail(std::span(&part, 1));  // one of them has the error
}

}  // namespace vitrine
