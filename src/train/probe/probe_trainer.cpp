#include "train/probe/probe_trainer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "inspect/pooled_site.h"
#include "metrics/class_scores.h"
#include "train/logistic.h"
#include "train/probe/logistic_regression.h"
#include "train/text_examples.h"

namespace vitrine {
namespace {

/// The type of a label in words; nullptr for one that no label has.
const char* type_of(const Json& label) {
  if (label.is_boolean()) return "a truth value";
  if (label.is_string()) return "a text";
  return label.is_number_integer() ? "a whole number" : nullptr;
}

void check_label(const Json& label, const Json* earlier, const std::string& where) {
  const char* const type = type_of(label);
  if (type == nullptr) {
    throw BadInput(where, "label: expected a whole number, a truth value or a text, got {}",
                   label.is_null() ? "none" : label.dump());
  }
  if (earlier != nullptr && std::string_view(type) != type_of(*earlier)) {
    throw BadInput(where, "label: expected {}, as in the lines before, got {}", type_of(*earlier), label.dump());
  }
}

/// The vectors of all texts, and the numbers of their labels.
struct Examples {
  std::vector<float> x;
  std::vector<std::int32_t> classes;
  SiteId site{};
  std::int64_t d = 0;
  std::int32_t n_classes = 0;

  ClassifiedRows rows() const { return {x, classes, d, n_classes}; }
};

/// The number of each text's label in the list.
std::vector<std::int32_t> classes_of(const LabeledTexts& texts, const std::vector<Json>& labels) {
  std::vector<std::int32_t> classes;
  for (std::size_t i = 0; i < texts.labels.size(); ++i) {
    const auto at = std::ranges::find(labels, texts.labels[i]);
    if (at == labels.end()) {
      throw BadInput(texts.where[i], "label: the probe knows {}, got {}", Json(labels).dump(), texts.labels[i].dump());
    }
    classes.push_back(static_cast<std::int32_t>(at - labels.begin()));
  }
  return classes;
}

Examples examples_of(const GenerateContext& context, const LabeledTexts& texts, const ProbedSite& site,
                     const std::vector<Json>& labels, std::int64_t d) {
  Examples examples;
  examples.classes = classes_of(texts, labels);
  examples.n_classes = static_cast<std::int32_t>(labels.size());
  const DictionarySiteOf at = dictionary_sites("--site", {site.site}, *context.model, *context.pool).front();
  if (d > 0 && at.width != d) {
    throw BadInput("--site", "{}: expected a width of {}, that of the probe, got {}", site.site, d, at.width);
  }
  examples.site = at.id;
  examples.d = at.width;
  examples.x = pooled_site(context, at.id, at.width, site.pool == ProbePool::mean, {texts.ids});
  return examples;
}

/// −ln p of the label, whose probabilities are written to `p`.
double loss_of(std::span<const double> logits, std::int32_t own, std::vector<double>& p) {
  if (logits.size() == 1) {
    p = {sigmoid(-logits[0]), sigmoid(logits[0])};
    return softplus_of_minus(own == 1 ? logits[0] : -logits[0]);
  }
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  p.clear();
  for (const double logit : logits) p.push_back(math::exp(logit - most));
  for (const double e : p) sum += e;
  for (double& e : p) e /= sum;
  return math::log(sum) + most - logits[static_cast<std::size_t>(own)];
}

/// The area under the curve of a label: of two by the logits, of more by the probabilities, as in scikit-learn.
std::optional<double> auroc_of(const std::vector<std::vector<double>>& scores, const Examples& examples) {
  double sum = 0;
  const std::int32_t first = examples.n_classes == 2 ? 1 : 0;
  for (std::int32_t label = first; label < examples.n_classes; ++label) {
    std::vector<double> own, is_positive;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      own.push_back(scores[i][scores[i].size() == 1 ? 0 : static_cast<std::size_t>(label)]);
      is_positive.push_back(examples.classes[i] == label ? 1 : 0);
    }
    sum += area_under_curve(own, is_positive);
  }
  const double mean = sum / static_cast<double>(examples.n_classes - first);
  return std::isnan(mean) ? std::nullopt : std::optional(mean);
}

ProbeScores scores_of(const Examples& examples, std::span<const double> weight, std::span<const double> bias,
                      ThreadPool& pool) {
  const std::vector<double> logits = logits_of(examples.rows(), weight, bias, pool);
  ProbeScores result{std::ssize(examples.classes)};
  std::vector<std::vector<double>> scores;
  std::vector<double> p;
  std::int64_t n_right = 0;
  for (std::size_t i = 0; i < examples.classes.size(); ++i) {
    const std::span<const double> own = std::span(logits).subspan(i * bias.size(), bias.size());
    result.loss += loss_of(own, examples.classes[i], p) / static_cast<double>(result.n);
    // Of two labels, the second one is predicted where its logit is above 0.
    const auto predicted = bias.size() == 1 ? (own[0] > 0 ? 1 : 0) : std::ranges::max_element(p) - p.begin();
    n_right += predicted == examples.classes[i];
    scores.push_back(bias.size() == 1 ? std::vector<double>{own[0]} : p);
  }
  result.accuracy = static_cast<double>(n_right) / static_cast<double>(result.n);
  result.auroc = auroc_of(scores, examples);
  return result;
}

std::vector<double> doubles_of(const Param& param) {
  const MatrixView& view = param.view;
  std::vector<double> all;
  std::vector<float> row(static_cast<std::size_t>(view.cols));
  for (std::int64_t i = 0; i < view.rows; ++i) {
    default_kernels().widen(view.data + bytes_of(view.dtype, i * view.cols), view.dtype, view.cols, row.data());
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

}  // namespace

LabeledTexts read_labeled_texts(const std::string& path, const Tokenizer& tokenizer, SpecialTokens special,
                                std::int64_t max_tokens) {
  LabeledTexts result;
  for_each_text_line(LearnedTask::classify, path, [&](const TextLine& line, const std::string& where) {
    if (line.texts.size() != 1) throw BadInput(where, "expected one text, got a pair");
    if (line.texts.front().empty()) throw BadInput(where, "text: expected a text, got an empty one");
    check_label(line.label, result.labels.empty() ? nullptr : &result.labels.back(), where);
    std::vector<std::int32_t> ids = tokenizer.encode(line.texts.front(), special);
    if (ids.empty()) throw BadInput(where, "text: expected at least one token, got none");
    if (std::ssize(ids) > max_tokens) {
      throw BadInput(where, "text: expected at most {} tokens, the model's context, got {}", max_tokens, ids.size());
    }
    result.ids.push_back(std::move(ids));
    result.labels.push_back(line.label);
    result.where.push_back(where);
  });
  return result;
}

TrainedProbe train_probe(const GenerateContext& context, const LabeledTexts& texts, const ProbedSite& site, double c) {
  TrainedProbe result;
  result.facts = {site.site, std::string(name_of(site.pool)), texts.labels};
  std::vector<Json>& labels = result.facts.labels;
  std::sort(labels.begin(), labels.end(), [](const Json& a, const Json& b) { return a < b; });
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  if (labels.size() < 2) {
    throw BadInput("label", "expected texts of at least two labels, got {} alone", labels.front().dump());
  }
  const Examples examples = examples_of(context, texts, site, labels, 0);
  result.facts.site = name_of(examples.site);
  const auto poll = [&context] {
    if (context.interrupt != nullptr && context.interrupt->load()) throw Interrupted();
    if (context.poll != nullptr) context.poll->poll();
  };
  LogisticFit fit = fit_logistic(examples.rows(), c, *context.pool, poll);
  result.scores = scores_of(examples, fit.weight, fit.bias, *context.pool);
  result.weight = std::move(fit.weight);
  result.bias = std::move(fit.bias);
  result.iterations = fit.iterations;
  result.gradient_norm = fit.gradient_norm;
  return result;
}

ProbeScores evaluate_probe(const GenerateContext& context, const LabeledTexts& texts, const ProbedSite& site,
                           const std::string& path, const ReadProbe& probe) {
  if (probe.facts.labels.empty()) throw BadInput(path, "the file does not name the labels of the probe");
  const Examples examples = examples_of(context, texts, site, probe.facts.labels, probe.probe->d_in());
  return scores_of(examples, doubles_of(probe.probe->encoder), doubles_of(probe.probe->encoder_bias), *context.pool);
}

}  // namespace vitrine
