#include "train/text_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "train/logistic.h"
#include "train/vector_loss.h"

namespace vitrine {
namespace {

using Example = Batch::Example;

/// The logarithm of Σ exp z, and z's softmax in `p`.
double log_sum(std::span<const double> z, std::span<double> p) {
  const double most = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (std::size_t i = 0; i < z.size(); ++i) sum += p[i] = math::exp(z[i] - most);
  for (double& x : p) x /= sum;
  return most + math::log(sum);
}

/// The outputs of an example, and where their gradients go.
struct Outputs {
  std::span<const double> z;
  std::span<double> dz;
};

/// −log softmax(z)[label], times `factor`.
double add_cross_entropy(std::size_t label, double factor, const Outputs& o) {
  std::vector<double> p(o.z.size());
  const double loss = log_sum(o.z, p) - o.z[label];
  for (std::size_t i = 0; i < p.size(); ++i) o.dz[i] += factor * (p[i] - (i == label ? 1 : 0));
  return factor * loss;
}

double add_binary(double label, double factor, double z, double& dz) {
  dz += factor * (sigmoid(z) - label);
  return factor * (label * softplus_of_minus(z) + (1 - label) * softplus_of_minus(-z));
}

double add_square(double label, double factor, double z, double& dz) {
  dz += 2 * factor * (z - label);
  return factor * (z - label) * (z - label);
}

double add_rank_net(std::span<const double> labels, double factor, const Outputs& o) {
  const double in_bits = factor / math::log(2);
  double loss = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = 0; j < labels.size(); ++j) {
      if (!(labels[i] > labels[j])) continue;
      const double margin = o.z[i] - o.z[j], slope = -in_bits * sigmoid(-margin);
      loss += in_bits * softplus_of_minus(margin);
      o.dz[i] += slope;
      o.dz[j] -= slope;
    }
  }
  return loss;
}

double add_list_net(std::span<const double> labels, double factor, const Outputs& o) {
  std::vector<double> p(labels.size()), wanted(labels.size());
  const double log_z = log_sum(o.z, p);
  log_sum(labels, wanted);
  double loss = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    loss += factor * wanted[i] * (log_z - o.z[i]);
    o.dz[i] += factor * (p[i] - wanted[i]);
  }
  return loss;
}

double add_margins(std::span<const double> margins, double factor, const Outputs& o) {
  double loss = 0;
  for (std::size_t i = 0; i < margins.size(); ++i) {
    double slope = 0;
    loss += add_square(margins[i], factor, o.z[0] - o.z[i + 1], slope);
    o.dz[0] += slope;
    o.dz[i + 1] -= slope;
  }
  return loss;
}

/// The tags of the tokens of a text, of which those below 0 do not count.
double add_tags(std::span<const double> tags, double factor, const Outputs& o, std::size_t width) {
  double loss = 0;
  for (std::size_t t = 0; t < tags.size(); ++t) {
    if (tags[t] < 0) continue;
    const Outputs of_token{o.z.subspan(t * width, width), o.dz.subspan(t * width, width)};
    loss += add_cross_entropy(static_cast<std::size_t>(tags[t]), factor, of_token);
  }
  return loss;
}

/// The loss of one example, divided by the number of them all.
double add_example(const TextObjective& objective, std::span<const double> labels, double factor, const Outputs& o,
                   std::size_t width) {
  double loss = 0;
  switch (objective.loss) {
    case TextLoss::cross_entropy:
      if (objective.task == LearnedTask::tag) return add_tags(labels, factor, o, width);
      return add_cross_entropy(static_cast<std::size_t>(labels[0]), factor, o);
    case TextLoss::bce_with_logits:
    case TextLoss::binary_cross_entropy:
      for (std::size_t i = 0; i < labels.size(); ++i) loss += add_binary(labels[i], factor, o.z[i], o.dz[i]);
      return loss;
    case TextLoss::mse:
      for (std::size_t i = 0; i < labels.size(); ++i) loss += add_square(labels[i], factor, o.z[i], o.dz[i]);
      return loss;
    case TextLoss::rank_net:
      return add_rank_net(labels, factor, o);
    case TextLoss::list_net:
      return add_list_net(labels, factor, o);
    case TextLoss::margin_mse:
      return add_margins(labels, factor, o);
    default:
      throw InternalError("text_loss", "expected the loss of a head");
  }
}

std::int64_t ordered_pairs(std::span<const double> labels) {
  std::int64_t n = 0;
  for (const double a : labels) {
    n += std::count_if(labels.begin(), labels.end(), [&](double b) { return a > b; });
  }
  return n;
}

/// The number of outputs of an example.
std::size_t n_outputs(const TextObjective& objective, const Example& example, std::size_t width) {
  const std::size_t rows =
      objective.task == LearnedTask::tag ? example.labels.size() : static_cast<std::size_t>(example.n_pieces);
  return rows * width;
}

}  // namespace

double count_of_loss(const TextObjective& objective, std::span<const Example> examples, std::int64_t width) {
  std::int64_t n = 0;
  for (const Example& example : examples) {
    switch (objective.loss) {
      case TextLoss::cross_entropy:
        n += objective.task != LearnedTask::tag
                 ? 1
                 : std::count_if(example.labels.begin(), example.labels.end(), [](double tag) { return tag >= 0; });
        break;
      case TextLoss::bce_with_logits:
      case TextLoss::mse:
        n += width;
        break;
      case TextLoss::rank_net:
        n += ordered_pairs(example.labels);
        break;
      case TextLoss::margin_mse:
        n += std::ssize(example.labels);
        break;
      default:
        n += 1;
    }
  }
  return static_cast<double>(std::max<std::int64_t>(n, 1));
}

TextLossResult text_loss(const TextObjective& objective, std::span<const Example> examples,
                         std::span<const double> outputs, std::int64_t width, double count) {
  if (objective.task == LearnedTask::embed) return vector_loss(objective, examples, outputs, width, count);
  TextLossResult result{0, std::vector<double>(outputs.size())};
  std::size_t at = 0;
  for (const Example& example : examples) {
    const auto w = static_cast<std::size_t>(width);
    const std::size_t n = n_outputs(objective, example, w);
    const Outputs own{outputs.subspan(at, n), std::span(result.gradients).subspan(at, n)};
    result.loss += add_example(objective, example.labels, 1 / count, own, w);
    at += n;
  }
  return result;
}

}  // namespace vitrine
