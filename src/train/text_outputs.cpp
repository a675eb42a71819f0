#include "train/text_outputs.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/math.h"
#include "model/finite.h"

namespace vitrine {
namespace {

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

void deliver_texts(Pass& p, const TextSteps* steps, DifferentiateTexts differentiate) {
  const auto differentiate_all = [&p, differentiate = std::move(differentiate)](const Tensor& outputs) {
    const std::vector<double> gradients =
        differentiate(std::vector<double>(outputs.data, outputs.data + outputs.count()));
    if (!p.is_taped()) return;
    const Tensor to = p.grad(outputs);  // the backward starts here
    for (std::size_t i = 0; i < gradients.size(); ++i) to.data[i] += static_cast<float>(gradients[i]);
  };
  if (steps == nullptr) {
    p.receive_outputs = [&p, differentiate_all](const Tensor& outputs) {
      check_segments(p);
      differentiate_all(outputs);
    };
    return;
  }
  p.receive_hidden = [&p, steps, differentiate_all](const Tensor& rows) {
    check_segments(p);
    TextValues values{rows};
    run_text_steps(p, steps->steps, {p.segments, {}}, values);
    differentiate_all(values.vector);
  };
}

}  // namespace vitrine
