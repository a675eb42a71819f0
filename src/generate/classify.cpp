#include "generate/classify.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {

ScoreFunction score_function(const TaskHead& head) {
  if (head.task == TaskHead::Task::answer || head.task == TaskHead::Task::choose) return ScoreFunction::softmax;
  if (head.problem == TaskHead::Problem::regression) return ScoreFunction::none;
  const bool is_one = head.n_labels() == 1 || head.problem == TaskHead::Problem::several_labels;
  return is_one ? ScoreFunction::sigmoid : ScoreFunction::softmax;
}

std::vector<float> scores_of(ScoreFunction function, std::span<const float> outputs) {
  std::vector<double> scores(outputs.begin(), outputs.end());
  if (function == ScoreFunction::sigmoid) {
    for (double& x : scores) x = 1 / (1 + math::exp(-x));
  }
  if (function == ScoreFunction::softmax) {
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& x : scores) sum += x = math::exp(x - most);
    for (double& x : scores) x /= sum;
  }
  return {scores.begin(), scores.end()};
}

void read_outputs(const GenerateContext& context, const TextIds& texts, std::int64_t max_rows,
                  const ReceiveOutputs& receive) {
  const auto& head = context.model->config().task;
  if (!head) throw Unsupported("head", "the model has no labels: it is no classifier");
  const auto prepare = [&](Pass& pass, const std::vector<Segment>& segments, std::span<const std::size_t> numbers) {
    pass.receive_outputs = [&, numbers](const Tensor& outputs) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        check_text(segments[i]);
        const bool is_of_rows = head->pool == TaskHead::Pool::none;
        const std::int64_t first = is_of_rows ? segments[i].first_row : static_cast<std::int64_t>(i);
        receive(numbers[i], outputs.row_range(first, is_of_rows ? segments[i].length : 1));
      }
    };
  };
  read_texts(context, texts, max_rows, prepare);
}

}  // namespace vitrine
