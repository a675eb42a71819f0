#include "tokenizer/explanation.h"

#include <algorithm>
#include <utility>

#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxExcerptBytes = 4096;

std::size_t excerpt_bytes(std::string_view text) { return std::min(text.size(), kMaxExcerptBytes); }

Explanation::Excerpt excerpt(std::string_view text) {
  std::size_t end = excerpt_bytes(text);
  while (end < text.size() && end > 0 && is_continuation(text[end])) --end;
  return {std::string(text.substr(0, end)), text.size()};
}

}  // namespace

/// Returns false once the limit has been reached.
bool EncodingRecorder::take(std::size_t n_bytes) {
  const std::size_t cost = 1 + n_bytes / 64;
  explanation_.is_cut = explanation_.is_cut || cost > items_left_;
  if (explanation_.is_cut) return false;
  items_left_ -= cost;
  return true;
}

/// Returns null if the word itself exceeded the limit.
Explanation::Word* EncodingRecorder::word() {
  return in_word_ ? &std::get<Explanation::Word>(explanation_.steps.back()) : nullptr;
}

void EncodingRecorder::part(std::string_view text) {
  if (take(excerpt_bytes(text))) explanation_.steps.emplace_back(Explanation::Part{excerpt(text)});
}

void EncodingRecorder::token(std::int32_t id, Explanation::Token::From from) {
  if (take(0)) explanation_.steps.emplace_back(Explanation::Token{id, from});
}

void EncodingRecorder::normalized(std::string_view by, std::string_view before, std::string_view after) {
  if (before == after || !take(excerpt_bytes(after))) return;
  explanation_.steps.emplace_back(Explanation::Normalized{std::string(by), excerpt(after)});
}

void EncodingRecorder::begin_cuts(std::span<const std::string> names) {
  first_cut_ = explanation_.steps.size();
  for (const std::string& name : names) {
    if (take(name.size())) explanation_.steps.emplace_back(Explanation::Cut{name, {}});
  }
}

void EncodingRecorder::pre_token(std::size_t stage, std::string_view word) {
  if (!take(excerpt_bytes(word))) return;
  std::get<Explanation::Cut>(explanation_.steps[first_cut_ + stage]).words.push_back(excerpt(word));
}

void EncodingRecorder::begin_word(std::string_view word) {
  in_word_ = take(excerpt_bytes(word));
  if (!in_word_) return;
  Explanation::Word step;
  step.text = excerpt(word);
  explanation_.steps.emplace_back(std::move(step));
}

void EncodingRecorder::rule(Explanation::Word::Rule rule) {
  if (in_word_) word()->rule = rule;
}

void EncodingRecorder::end_word(std::span<const std::int32_t> ids) {
  if (in_word_ && take(ids.size_bytes())) word()->ids.assign(ids.begin(), ids.end());
  in_word_ = false;
}

void EncodingRecorder::begin_symbols() {
  if (in_word_) first_symbol_ = word()->symbols.size();
}

void EncodingRecorder::symbol(std::string_view text) {
  if (in_word_ && take(text.size())) word()->symbols.emplace_back(text);
}

void EncodingRecorder::merge(double order, std::size_t place, std::string_view left, std::string_view right,
                             std::string_view result) {
  if (!in_word_ || !take(left.size() + right.size() + result.size())) return;
  word()->merges.push_back({order, first_symbol_ + place, std::string(left), std::string(right), std::string(result)});
}

void EncodingRecorder::candidate(const Explanation::Candidate& candidate) {
  if (in_word_ && take(0)) word()->candidates.push_back(candidate);
}

void EncodingRecorder::chosen(std::size_t begin, std::size_t end) {
  if (!in_word_) return;
  std::vector<Explanation::Candidate>& all = word()->candidates;
  auto at = std::lower_bound(all.begin(), all.end(), begin,
                             [](const Explanation::Candidate& c, std::size_t place) { return c.begin < place; });
  for (; at != all.end() && at->begin == begin; ++at) at->chosen = at->chosen || at->end == end;
}

Explanation EncodingRecorder::finish(std::vector<std::int32_t> ids) {
  explanation_.ids = std::move(ids);
  return std::move(explanation_);
}

}  // namespace vitrine
