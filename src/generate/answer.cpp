#include "generate/answer.h"

#include <algorithm>

#include "base/math.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// A pair of tokens, in whose window the answer begins and ends, both included.
struct Candidate {
  std::size_t first = 0, last = 0;
  double score = 0;
};

/// The probabilities that an answer begins (`which` 0) or ends (1) at each token that may be part of one.
std::vector<double> probabilities(std::span<const float> outputs, const std::vector<bool>& may, std::size_t which) {
  double most = -1e300, sum = 0;
  for (std::size_t i = 0; i < may.size(); ++i) {
    if (may[i]) most = std::max(most, static_cast<double>(outputs[2 * i + which]));
  }
  std::vector<double> result(may.size());
  for (std::size_t i = 0; i < may.size(); ++i) {
    if (may[i]) sum += result[i] = math::exp(static_cast<double>(outputs[2 * i + which]) - most);
  }
  for (double& p : result) p /= sum;
  return result;
}

/// Of a window: the best candidates, largest first, and how likely it is that there is no answer.
struct WindowAnswers {
  std::vector<Candidate> candidates;
  double none = 0;
};

WindowAnswers candidates_of(const PlacedTexts& window, std::span<const float> outputs, const AnswerOptions& o) {
  std::vector<bool> may(window.ids.size());
  for (std::size_t i = 0; i < may.size(); ++i) may[i] = window.texts[i] == 1;
  const bool has_class_token = o.reads_class_token && !may.empty() && window.texts[0] < 0;
  if (has_class_token) may[0] = true;
  std::vector<double> begins = probabilities(outputs, may, 0), ends = probabilities(outputs, may, 1);
  WindowAnswers result;
  if (has_class_token) {
    result.none = begins[0] * ends[0];
    begins[0] = ends[0] = 0;
  }
  for (std::size_t first = 0; first < may.size(); ++first) {
    const std::size_t end = std::min(may.size(), first + static_cast<std::size_t>(o.max_tokens));
    for (std::size_t last = first; may[first] && last < end; ++last) {
      if (may[last]) result.candidates.push_back({first, last, begins[first] * ends[last]});
    }
  }
  // Some of them become the same answer when they are made whole words.
  const auto n = std::min(result.candidates.size(), static_cast<std::size_t>(2 * o.top + 10));
  std::partial_sort(
      result.candidates.begin(), result.candidates.begin() + static_cast<std::ptrdiff_t>(n), result.candidates.end(),
      [](const Candidate& a, const Candidate& b) {
        return a.score != b.score ? a.score > b.score : a.first != b.first ? a.first < b.first : a.last < b.last;
      });
  result.candidates.resize(n);
  return result;
}

/// From the first token of the first word to the last token of the last one, of those in the window.
TextPlace whole_words(const PlacedTexts& window, const Candidate& c) {
  if (window.texts[c.first] != 1 || window.texts[c.last] != 1) {
    return {window.places[c.first].begin, window.places[c.last].end};
  }
  const auto is_of = [&](std::size_t i, std::int32_t word) { return window.texts[i] == 1 && window.words[i] == word; };
  std::size_t first = c.first, last = c.last;
  while (first > 0 && is_of(first - 1, window.words[c.first])) --first;
  while (last + 1 < window.ids.size() && is_of(last + 1, window.words[c.last])) ++last;
  return {window.places[first].begin, window.places[last].end};
}

}  // namespace

WindowOptions AnswerOptions::windows(std::int64_t most) const {
  WindowOptions result;
  result.most = std::min(most, window);
  result.stride = stride.value_or(std::min<std::int64_t>(result.most / 2, 128));
  return result;
}

AnswerOptions answer_options(const ModelConfig& model) {
  AnswerOptions options;
  options.reads_class_token = model.encoder || is_bidirectional(model);
  return options;
}

std::vector<TextAnswer> answers_of(const std::string& text, std::span<const PlacedTexts> windows,
                                   std::span<const std::vector<float>> outputs, const AnswerOptions& o) {
  const TextCharacters characters(text);
  std::vector<TextAnswer> answers;
  double none = 1e6;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const WindowAnswers found = candidates_of(windows[w], outputs[w], o);
    none = std::min(none, found.none);
    for (const Candidate& c : found.candidates) {
      const TextPlace place = whole_words(windows[w], c);
      std::string answer(characters.part(place));
      const std::string key = lowercase(answer);
      const auto same = std::find_if(answers.begin(), answers.end(),
                                     [&](const TextAnswer& other) { return lowercase(other.answer) == key; });
      if (same != answers.end()) {
        same->score += c.score;
      } else {
        answers.push_back({std::move(answer), c.score, place});
      }
    }
  }
  if (o.may_have_none) answers.push_back({"", none, {}});
  std::stable_sort(answers.begin(), answers.end(),
                   [](const TextAnswer& a, const TextAnswer& b) { return a.score > b.score; });
  answers.resize(std::min(answers.size(), static_cast<std::size_t>(o.top)));
  return answers;
}

}  // namespace vitrine
