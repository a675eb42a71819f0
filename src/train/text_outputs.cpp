#include "train/text_outputs.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/math.h"
#include "model/finite.h"

namespace vitrine {
namespace {

/// The row of a segment whose element is its vector's, for poolings that choose.
std::int64_t chosen_row(const Tensor& rows, const Segment& s, Pooling pooling, std::int64_t element) {
  if (pooling == Pooling::cls) return s.first_row;
  if (pooling == Pooling::last) return s.first_row + s.length - 1;
  std::int64_t best = s.first_row;
  for (std::int64_t t = best + 1; t < s.first_row + s.length; ++t) {
    if (rows.row(t)[element] > rows.row(best)[element]) best = t;
  }
  return best;
}

std::vector<double> vectors_of(const Tensor& rows, std::span<const Segment> segments, Pooling pooling) {
  const std::int64_t d = rows.row_size();
  std::vector<double> vectors;
  for (const Segment& s : segments) {
    for (std::int64_t k = 0; k < d; ++k) {
      if (pooling != Pooling::mean) {
        vectors.push_back(static_cast<double>(rows.row(chosen_row(rows, s, pooling, k))[k]));
        continue;
      }
      double sum = 0;
      for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) sum += static_cast<double>(rows.row(t)[k]);
      vectors.push_back(sum / static_cast<double>(s.length));
    }
  }
  return vectors;
}

/// Adds the gradients of vectors to those of the rows that they were made of.
void add_gradients(std::span<const double> gradients, const Tensor& rows, std::span<const Segment> segments,
                   Pooling pooling, const Tensor& to) {
  const std::int64_t d = rows.row_size();
  const double* gradient = gradients.data();
  for (const Segment& s : segments) {
    for (std::int64_t k = 0; k < d; ++k, ++gradient) {
      if (pooling != Pooling::mean) {
        to.row(chosen_row(rows, s, pooling, k))[k] += static_cast<float>(*gradient);
        continue;
      }
      const auto share = static_cast<float>(*gradient / static_cast<double>(s.length));
      for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) to.row(t)[k] += share;
    }
  }
}

/// Throws NotFinite for the first text that has failed.
void check_segments(const Pass& pass) {
  for (const Segment& s : pass.segments) {
    if (s.failure) throw error_of(*s.failure);
  }
}

double log1p(double x) { return math::log(1 + x); }

/// The weight of a word by its logit, and the weight's derivative.
struct WordLogit {
  double weight = 0, slope = 0;

  WordLogit(const SpladeStep& step, float logit) {
    if (logit <= 0) return;
    const auto x = static_cast<double>(logit);
    weight = step.twice ? log1p(log1p(x)) : log1p(x);
    slope = 1 / (1 + x) / (step.twice ? 1 + log1p(x) : 1);
  }
};

/// Requests the logits of all rows.
void request_all_rows(Pass& p) {
  p.logits.rows = LogitRequest::Rows::range;
  p.logits.begin = 0;
  p.logits.end = p.segments.back().first_row + p.segments.back().length;
}

/// Sets the gradients of one row of logits. The largest logit of a word, the first of equal ones, receives the gradient
/// of a maximum; `is_done` says which have received theirs.
void differentiate_row(const SpladeStep& step, const float* logits, std::span<const double> weights,
                       std::span<const double> gradients, std::vector<bool>::iterator is_done, float* to) {
  for (std::size_t j = 0; j < weights.size(); ++j, ++is_done) {
    const WordLogit own(step, logits[j]);
    const bool is_largest = static_cast<double>(static_cast<float>(own.weight)) == weights[j];
    if (own.slope == 0 || (!step.sums && (*is_done || !is_largest))) continue;
    if (!step.sums) *is_done = true;
    to[j] += static_cast<float>(gradients[j] * own.slope);
  }
}

}  // namespace

void deliver_words(Pass& p, const SpladeStep& step, std::int64_t vocab_size,
                   std::function<void(std::span<const double> weights)> receive) {
  request_all_rows(p);
  const auto words = std::make_shared<SpladeWeights>(step, vocab_size, p.segments);
  p.logits.receive = [&p, words, receive = std::move(receive)](std::int64_t first, const Tensor& logits) {
    words->add(p, first, logits);
    if (first + logits.rows() < p.logits.end) return;
    check_segments(p);
    const Tensor weights = words->finish(p);
    receive(std::vector<double>(weights.data, weights.data + weights.count()));
  };
}

void differentiate_words(Pass& p, const SpladeStep& step, std::span<const double> weights,
                         std::span<const double> gradients) {
  request_all_rows(p);
  const auto is_done = std::make_shared<std::vector<bool>>(weights.size());
  p.logits.receive = [&p, step, weights, gradients, is_done](std::int64_t first, const Tensor& logits) {
    check_segments(p);
    const auto vocab_size = static_cast<std::size_t>(logits.row_size());
    const Tensor to = p.grad(logits);  // the backward starts here
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      const auto text = static_cast<std::size_t>(&segment_of(p.segments, first + i) - p.segments.data());
      const std::size_t at = text * vocab_size;
      differentiate_row(step, logits.row(i), weights.subspan(at, vocab_size), gradients.subspan(at, vocab_size),
                        is_done->begin() + static_cast<std::ptrdiff_t>(at), to.row(i));
    }
  };
}

void deliver_texts(Pass& p, std::optional<Pooling> pooling, DifferentiateTexts differentiate) {
  if (pooling == Pooling::pooler) throw InternalError("texts", "expected a pooling of rows");
  if (!pooling) {
    p.receive_outputs = [&p, differentiate = std::move(differentiate)](const Tensor& outputs) {
      check_segments(p);
      const std::vector<double> values(outputs.data, outputs.data + outputs.count());
      const std::vector<double> gradients = differentiate(values);
      if (!p.is_taped()) return;
      const Tensor to = p.grad(outputs);  // the backward starts here
      for (std::size_t i = 0; i < gradients.size(); ++i) to.data[i] += static_cast<float>(gradients[i]);
    };
    return;
  }
  p.receive_hidden = [&p, pooling, differentiate = std::move(differentiate)](const Tensor& rows) {
    check_segments(p);
    const std::vector<double> gradients = differentiate(vectors_of(rows, p.segments, *pooling));
    if (p.is_taped()) add_gradients(gradients, rows, p.segments, *pooling, p.grad(rows));
  };
}

}  // namespace vitrine
