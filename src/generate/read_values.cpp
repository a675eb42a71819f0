#include "generate/read_values.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"

namespace vitrine {
namespace {

/// The texts of one pass.
class Batch {
 public:
  Batch(const TextSteps& steps, const TextIds& texts, const std::vector<Segment>& segments,
        std::span<const std::size_t> numbers, const ReceiveValues& receive)
      : steps_(steps), segments_(segments), numbers_(numbers), receive_(receive) {
    for (const std::size_t i : numbers) {
      ids_.insert(ids_.end(), texts.ids[i].begin(), texts.ids[i].end());
      if (!texts.marks.empty()) marks_.push_back(texts.marks[i]);
    }
  }

  std::span<const Segment> segments() const { return segments_; }

  /// Runs the steps from number `first` on, and delivers what they make.
  void finish(Pass& p, TextValues values, std::size_t first = 0) {
    for (const Segment& segment : segments_) check_text(segment);
    const TextRows rows{segments_, ids_, marks_};
    run_text_steps(p, std::span(steps_.steps).subspan(first), rows, values);
    if (steps_.result == TextValue::tokens) return deliver_tokens(p, values);
    const Tensor& all = values.of(steps_.result);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      receive_(numbers_[i], all.row_range(static_cast<std::int64_t>(i), 1));
    }
  }

 private:
  /// The rows of each text that count.
  void deliver_tokens(Pass& p, const TextValues& values) {
    const std::int64_t d = values.tokens.row_size();
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const Segment& s = segments_[i];
      std::vector<std::int64_t> chosen;
      for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
        const bool counts = values.counts.empty() ? t < s.first_row + s.length - s.n_padding
                                                  : values.counts[static_cast<std::size_t>(t)];
        if (counts) chosen.push_back(t);
      }
      const Tensor rows = p.tensor({std::ssize(chosen), d});
      for (std::size_t k = 0; k < chosen.size(); ++k) {
        std::copy_n(values.tokens.row(chosen[k]), d, rows.row(static_cast<std::int64_t>(k)));
      }
      receive_(numbers_[i], rows);
    }
  }

  const TextSteps& steps_;
  const std::vector<Segment>& segments_;
  std::span<const std::size_t> numbers_;
  const ReceiveValues& receive_;
  std::vector<std::int32_t> ids_;
  std::vector<TextMarks> marks_;
};

/// Requests the logits of all rows, and pools them while they arrive.
void read_words(Pass& pass, const std::shared_ptr<Batch>& batch, const TextSteps& steps, std::int64_t vocab_size) {
  const Segment& last = batch->segments().back();
  const std::int64_t n_rows = last.first_row + last.length;
  pass.logits.rows = LogitRequest::Rows::range;
  pass.logits.begin = 0;
  pass.logits.end = n_rows;
  const auto weights =
      std::make_shared<SpladeWeights>(std::get<SpladeStep>(steps.steps.front()), vocab_size, batch->segments());
  pass.logits.receive = [&pass, batch, weights, n_rows](std::int64_t first, const Tensor& logits) {
    weights->add(pass, first, logits);
    if (first + logits.rows() == n_rows) batch->finish(pass, {.vector = weights->finish(pass)}, 1);
  };
}

/// Requests the logits of the word that follows each text, and takes those of one or two tokens.
void read_next(Pass& pass, const std::shared_ptr<Batch>& batch, const TextSteps& steps, std::int64_t vocab_size) {
  const LogitStep step = std::get<LogitStep>(steps.steps.front());
  if (std::max(step.yes, step.no.value_or(0)) >= vocab_size) {
    throw BadCheckpoint("LogitScore", "expected ids of tokens below {}, got {}", vocab_size,
                        std::max(step.yes, step.no.value_or(0)));
  }
  pass.logits.rows = LogitRequest::Rows::last_of_segments;
  const auto scores = std::make_shared<std::vector<float>>();
  const std::size_t n = batch->segments().size();
  pass.logits.receive = [&pass, batch, scores, step, n](std::int64_t, const Tensor& logits) {
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      const float* const row = logits.row(i);
      scores->push_back(step.no ? row[step.yes] - row[*step.no] : row[step.yes]);
    }
    if (scores->size() == n) {
      const Tensor all{scores->data(), {static_cast<std::int64_t>(n), 1}};
      batch->finish(pass, {.scores = all}, 1);
    }
  };
}

}  // namespace

void read_values(const GenerateContext& context, const TextSteps& steps, const TextIds& texts, std::int64_t max_rows,
                 const ReceiveValues& receive) {
  const ModelConfig& model = context.model->config();
  using Source = TextSteps::Source;
  const bool reads_logits = steps.source == Source::word_logits || steps.source == Source::next_logits;
  if (reads_logits && (!model.has_head || model.encoder)) {
    throw Unsupported("steps", "the model has no head whose logits of words the steps read");
  }
  if (steps.source == Source::outputs && !model.task) {
    throw Unsupported("steps", "the model has no head whose outputs the steps read");
  }
  if (steps.source == Source::pooler && !model.pooler) throw Unsupported("encode", "the model has no pooler");
  const auto prepare = [&](Pass& pass, const std::vector<Segment>& segments, std::span<const std::size_t> numbers) {
    const auto batch = std::make_shared<Batch>(steps, texts, segments, numbers, receive);
    switch (steps.source) {
      case Source::rows:
        pass.receive_hidden = [&pass, batch](const Tensor& rows) { batch->finish(pass, {.tokens = rows}); };
        break;
      case Source::word_logits:
        read_words(pass, batch, steps, model.vocab_size);
        break;
      case Source::outputs:
        pass.receive_outputs = [&pass, batch](const Tensor& outputs) { batch->finish(pass, {.scores = outputs}); };
        break;
      case Source::next_logits:
        read_next(pass, batch, steps, model.vocab_size);
        break;
      case Source::pooler:
        pass.receive_pooled = [&pass, batch](const Tensor& vectors) { batch->finish(pass, {.vector = vectors}); };
        break;
    }
  };
  read_texts(context, texts, max_rows, prepare);
}

}  // namespace vitrine
