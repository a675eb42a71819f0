#include "cli/task_texts.h"

#include <algorithm>

#include "base/error.h"
#include "cli/progress.h"
#include "generate/rerank.h"
#include "train/text_examples.h"

namespace vitrine::cli {
namespace {

constexpr std::size_t kTextsAtOnce = 1024;

/// The elements of a vector that has been quantized, as numbers.
std::vector<float> rounded_numbers(std::span<const float> vector, VectorPrecision precision,
                                   const VectorRanges& ranges) {
  const std::vector<std::uint8_t> bytes = quantized(vector, precision, ranges);
  std::vector<float> numbers(vector.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!has_ranges(precision)) {
      numbers[i] = vector[i] > 0 ? 1.0f : 0.0f;  // the bit, whatever the sign of its byte
    } else {
      numbers[i] = static_cast<float>(is_signed(precision) ? static_cast<std::int8_t>(bytes[i]) : bytes[i]);
    }
  }
  return numbers;
}

void add_ranges(const std::vector<TextVectors>& vectors, VectorRanges& ranges) {
  for (const TextVectors& own : vectors) {
    for (std::int64_t i = 0; i < own.n; ++i) ranges.add(own.row(i));
  }
}

void quantize(std::vector<TextVectors>& vectors, VectorPrecision precision, const VectorRanges& ranges) {
  for (TextVectors& own : vectors) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < own.n; ++i) {
      const std::vector<float> numbers = rounded_numbers(own.row(i), precision, ranges);
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    own.values = std::move(all);
  }
}

}  // namespace

TextInputOptions input_options(const Options& o, std::int64_t batch) {
  TextInputOptions options;
  static_cast<Options&>(options) = o;
  options.batch = batch;
  return options;
}

TaskTexts::TaskTexts(const Session& session, const Options& options, std::int64_t batch, const TaskVectors& vectors)
    : session_(session), options_(input_options(options, batch)), inputs_(session_, options_), vectors_(vectors) {
  if (reads_pairs() && (vectors.dimensions || vectors.precision != VectorPrecision::float32)) {
    throw Unsupported(vectors.dimensions ? "--dimensions" : "--precision", "the model makes no vectors");
  }
}

bool TaskTexts::reads_pairs() const {
  return vitrine::reads_pairs(session_.checkpoint.model->config(), inputs_.config());
}

std::vector<std::int64_t> TaskTexts::add_words(const std::vector<std::string>& words) {
  const TextEncoder encoder(*session_.tokenizer, inputs_.config(), false);
  std::vector<std::int64_t> rows;
  inputs_.add(encoder.words(words, rows).ids);
  return rows;
}

std::vector<std::vector<float>> TaskTexts::outputs() { return read_waiting(false); }

/// The outputs of the head, or the scores that the folder's steps make of them.
std::vector<std::vector<float>> TaskTexts::read_waiting(bool by_folder) {
  std::vector<std::vector<float>> all(inputs_.size());
  const TextIds texts = inputs_.texts();
  ProgressBar bar("eval");
  for (std::size_t first = 0; first < all.size(); first += kTextsAtOnce) {
    const std::size_t n = std::min(kTextsAtOnce, all.size() - first);
    const TextIds some{texts.ids.subspan(first, n), texts.types.subspan(first, n), texts.marks.subspan(first, n)};
    const auto take = [&](std::size_t i, const Tensor& outputs) {
      all[first + i].assign(outputs.data, outputs.data + outputs.count());
    };
    const std::int64_t most = options_.batch * kRowsOfText;
    by_folder ? read_scores(session_.context(options_), inputs_.config(), some, most, take)
              : read_outputs(session_.context(options_), some, most, take);
    bar.update(static_cast<std::int64_t>(first + n), std::ssize(all));
  }
  inputs_.clear();
  return all;
}

std::vector<TextVectors> TaskTexts::exact_vectors(const std::vector<std::string>& texts, TextRole role) {
  VectorOptions options{.dimensions = vectors_.dimensions, .max_rows = options_.batch * kRowsOfText};
  if (vectors_.precision != VectorPrecision::float32) options.normalize = true;
  if (role != TextRole::any) inputs_.use_role(role);
  std::vector<TextVectors> all(texts.size());
  ProgressBar bar("eval");
  for (std::size_t first = 0; first < texts.size(); first += kTextsAtOnce) {
    const std::size_t n = std::min(kTextsAtOnce, texts.size() - first);
    for (std::size_t i = first; i < first + n; ++i) inputs_.add(texts[i]);
    read_vectors(session_.context(options_), inputs_.config(), inputs_.texts(), options,
                 [&](std::size_t i, TextVectors own) { all[first + i] = std::move(own); });
    inputs_.clear();
    bar.update(static_cast<std::int64_t>(first + n), std::ssize(texts));
  }
  return all;
}

std::pair<std::vector<TextVectors>, std::vector<TextVectors>> TaskTexts::vectors(const std::vector<std::string>& first,
                                                                                 TextRole role_of_first,
                                                                                 const std::vector<std::string>& second,
                                                                                 TextRole role_of_second) {
  if (reads_pairs()) throw Unsupported("--task", "the model reads pairs of texts, so it makes no vectors");
  auto a = exact_vectors(first, role_of_first), b = exact_vectors(second, role_of_second);
  const VectorPrecision precision = vectors_.precision;
  if (precision != VectorPrecision::float32) {
    const bool is_plain = inputs_.config().result() == TextValue::vector && !inputs_.config().is_sparse();
    if (!is_plain) throw Unsupported("--precision", "the model makes no vector of a text that could be quantized");
    VectorRanges ranges;
    add_ranges(b, ranges);
    if (role_of_first == role_of_second) add_ranges(a, ranges);
    quantize(a, precision, ranges);
    quantize(b, precision, ranges);
  }
  return {std::move(a), std::move(b)};
}

std::vector<double> TaskTexts::pair_scores(const std::vector<std::pair<std::string, std::string>>& pairs,
                                           bool are_alike) {
  std::vector<double> scores;
  if (reads_pairs()) {
    const ScoreFunction function = rank_function(session_.checkpoint.model->config(), config());
    for (const auto& [a, b] : pairs) add(a, b);
    for (const std::vector<float>& own : read_waiting(true)) {
      scores.push_back(static_cast<double>(scores_of(function, own)[0]));
    }
    return scores;
  }
  std::vector<std::string> first, second;
  std::vector<std::size_t> number_of_first;
  for (const auto& [a, b] : pairs) {
    const bool is_new = are_alike || first.empty() || first.back() != a;  // documents of one query follow each other
    if (is_new) first.push_back(a);
    number_of_first.push_back(first.size() - 1);
    second.push_back(b);
  }
  const auto [a, b] = vectors(first, are_alike ? TextRole::any : TextRole::query, second,
                              are_alike ? TextRole::any : TextRole::document);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    scores.push_back(similarity_of(config().similarity, a[number_of_first[i]], b[i]));
  }
  return scores;
}

}  // namespace vitrine::cli
