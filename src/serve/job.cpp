#include "serve/job.h"

namespace vitrine {
namespace {

template <class T>
std::int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.size() * sizeof(T));
}

}  // namespace

Job::Job(std::size_t client, std::vector<GenerateRequest> sequences, bool streams, std::function<void()> notify)
    : client_(client), streams_(streams), sequences_(std::move(sequences)), notify_(std::move(notify)) {
  waiting_bytes_ = bytes_of(sequences_);
  for (const GenerateRequest& s : sequences_) {
    waiting_bytes_ += bytes_of(s.prompt) + bytes_of(s.source) + bytes_of(s.sampling.logit_bias) + bytes_of(s.stop_ids);
    for (const std::string& stop : s.stop_strings) waiting_bytes_ += std::ssize(stop);
    waiting_bytes_ += bytes_of(s.rules.suppressed) + bytes_of(s.prediction);
    for (const auto& word : s.rules.bad_words) waiting_bytes_ += bytes_of(word);
  }
}

TextTask::TextTask(std::size_t client, std::vector<std::vector<std::int32_t>> texts,
                   std::vector<std::vector<std::int32_t>> types, std::optional<ModifierList> modifiers, Read read,
                   std::function<void()> notify, std::vector<TextMarks> marks)
    : client_(client),
      texts_(std::move(texts)),
      types_(std::move(types)),
      marks_(std::move(marks)),
      modifiers_(std::move(modifiers)),
      read_(std::move(read)),
      notify_(std::move(notify)),
      vectors_(texts_.size()) {
  for (const std::vector<std::int32_t>& text : texts_) waiting_bytes_ += bytes_of(text);
}

std::int64_t TextTask::run_part(GenerateContext context, std::int64_t n_rows) {
  if (modifiers_) context.modifiers = *modifiers_;
  std::size_t end = n_done_;
  std::int64_t n_tokens = 0;
  while (end < texts_.size() && (end == n_done_ || n_tokens + std::ssize(texts_[end]) <= n_rows)) {
    n_tokens += std::ssize(texts_[end++]);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!times_.admitted) times_.admitted = ServerClock::now();
  }
  try {
    TextIds part{std::span(texts_).subspan(n_done_, end - n_done_)};
    if (!types_.empty()) part.types = std::span(types_).subspan(n_done_, end - n_done_);
    if (!marks_.empty()) part.marks = std::span(marks_).subspan(n_done_, end - n_done_);
    read_(context, part, [&](std::size_t i, std::span<const float> values) {
      vectors_[n_done_ + i].assign(values.begin(), values.end());
    });
  } catch (...) {
    fail(std::current_exception());
    return n_tokens;
  }
  n_done_ = end;
  if (n_done_ < texts_.size()) return n_tokens;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    times_.ended = ServerClock::now();
  }
  notify_();
  return n_tokens;
}

void TextTask::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  notify_();
}

}  // namespace vitrine
