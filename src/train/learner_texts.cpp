// The part of the learner that is about texts.
#include <algorithm>
#include <cmath>
#include <limits>

#include "train/learner.h"
#include "train/text_outputs.h"

namespace vitrine {

void Learner::learn_texts(const TextObjective& objective, const TextResult& result) {
  texts_ = {objective, result,
            result.has_vectors || result.words ? result.width : trainable_.model().config().task->n_labels()};
}

/// What makes vectors; null: the outputs of the head are compared.
const TextSteps* Learner::text_steps() const { return texts_->result.has_vectors ? &trainable_.steps() : nullptr; }

/// Makes the pass deliver the outputs of its texts, without a tape.
void Learner::deliver_outputs(Pass& pass, std::function<void(std::span<const double> outputs)> receive) const {
  if (texts_->result.words) return deliver_words(pass, *texts_->result.words, texts_->width, std::move(receive));
  deliver_texts(pass, text_steps(), [receive = std::move(receive)](std::span<const double> outputs) {
    receive(outputs);
    return std::vector<double>{};
  });
}

/// The number of outputs before those of a piece.
std::int64_t Learner::output_begin(const Batch& batch, std::int64_t piece) const {
  if (texts_->objective.task != LearnedTask::tag) return piece * texts_->width;
  const bool is_end = piece == std::ssize(batch.pieces);
  return texts_->width * (is_end ? std::ssize(batch.inputs) : batch.pieces[static_cast<std::size_t>(piece)].first_row);
}

/// The outputs of a micro-batch, without gradients.
std::vector<double> Learner::outputs_of(const BatchPart& part, std::int64_t step, std::int64_t number,
                                        BlockEvents* events) {
  std::vector<double> result;
  Pass pass = pass_of(part, step, number, events);
  deliver_outputs(pass, [&](std::span<const double> outputs) { result.assign(outputs.begin(), outputs.end()); });
  trainable_.model().forward(pass, part.tokens());
  return result;
}

/// The outputs of all micro-batches, of which each rank computes some.
std::vector<double> Learner::all_outputs(const Batch& batch, std::int64_t step) {
  const auto n_outputs = [&](const BatchPart& part) {
    const auto first = static_cast<std::int64_t>(part.first_piece);
    return output_begin(batch, first + std::ssize(part.segments)) - output_begin(batch, first);
  };
  const auto compute = [&](std::int64_t number, BlockEvents* events) {
    const BatchPart part = part_of(batch, number, options_.micro_batches);
    try {
      return outputs_of(part, step, number, events);
    } catch (const NotFinite&) {  // the loss will not be finite, either
      return std::vector<double>(static_cast<std::size_t>(n_outputs(part)), std::numeric_limits<double>::quiet_NaN());
    }
  };
  std::vector<double> all;
  if (shared_) {
    std::int64_t most = 0;
    for (std::int64_t number = 0; number < options_.micro_batches; ++number) {
      most = std::max(most, n_outputs(part_of(batch, number, options_.micro_batches)));
    }
    return shared_->collect(most, compute);
  }
  for (std::int64_t number = 0; number < options_.micro_batches; ++number) {
    const std::vector<double> own = compute(number, nullptr);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

/// Computes the loss and its gradients of the outputs before those of the parameters, if the micro-batches depend on
/// each other. Returns why the step is skipped, or "".
std::string Learner::compare_texts(const Batch& batch, std::int64_t step, StepLosses& losses) {
  const bool is_at_once = options_.micro_batches == 1 && !texts_->result.words;
  if (texts_->objective.is_sum() || is_at_once) return "";
  losses.outputs = all_outputs(batch, step);
  const double count = count_of_loss(texts_->objective, batch.examples, texts_->width);
  losses.texts = text_loss(texts_->objective, batch.examples, losses.outputs, texts_->width, count);
  return std::isfinite(losses.texts->loss) ? "" : "its loss is not finite";
}

/// Adds the gradients of a micro-batch, whose pass has a tape.
void Learner::backward_texts(const Batch& batch, const BatchPart& part, std::int64_t number, Pass& pass,
                             StepLosses& losses) {
  const double count = count_of_loss(texts_->objective, batch.examples, texts_->width);
  double& loss = losses.parts[static_cast<std::size_t>(number)].cross_entropy;
  const auto first = static_cast<std::int64_t>(part.first_piece);
  if (texts_->result.words) {
    const auto begin = static_cast<std::size_t>(output_begin(batch, first));
    const std::size_t n = part.segments.size() * static_cast<std::size_t>(texts_->width);
    differentiate_words(pass, *texts_->result.words, std::span(losses.outputs).subspan(begin, n),
                        std::span(losses.texts->gradients).subspan(begin, n));
    return trainable_.model().forward_backward(pass, part.tokens());
  }
  deliver_texts(pass, text_steps(), [&](std::span<const double> outputs) {
    if (losses.texts) {
      const auto begin = losses.texts->gradients.begin() + output_begin(batch, first);
      return std::vector<double>(begin, begin + std::ssize(outputs));
    }
    TextLossResult found = text_loss(texts_->objective, part.examples, outputs, texts_->width, count);
    loss = found.loss;
    return std::move(found.gradients);
  });
  trainable_.model().forward_backward(pass, part.tokens());
}

/// The loss of a batch, times what counts in it. A rank of several runs one pass, whose blocks the others follow.
double Learner::score_texts(const Batch& batch, BlockEvents* events) {
  const std::int64_t n_parts =
      events != nullptr ? 1 : std::min<std::int64_t>(options_.micro_batches, std::ssize(batch.examples));
  std::vector<double> outputs;
  for (std::int64_t number = 0; number < n_parts; ++number) {
    const BatchPart part = part_of(batch, number, n_parts);
    Pass pass = pass_of(part, 0, number, events);
    pass.training.dropout = {};
    pass.training.adapter_dropout = 0;
    deliver_outputs(pass, [&](std::span<const double> own) { outputs.insert(outputs.end(), own.begin(), own.end()); });
    trainable_.model().forward(pass, part.tokens());
  }
  const double count = count_of_loss(texts_->objective, batch.examples, texts_->width);
  const double loss = text_loss(texts_->objective, batch.examples, outputs, texts_->width, count).loss;
  return loss * static_cast<double>(batch.n_counted());
}

}  // namespace vitrine
