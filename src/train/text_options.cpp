#include "train/text_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "train/text_examples.h"

namespace vitrine {
namespace {

constexpr double kMaxOfLoss = 1e9;
constexpr const char *kDocumentWeight = "document_regularizer_weight", *kQueryWeight = "query_regularizer_weight";

struct TaskWord {
  const char* name;
  LearnedTask task;
  TaskHead::Task head;
  std::vector<TextLoss> losses;  // the first is the usual one of tag, rerank and embed
};

const std::vector<TaskWord>& tasks() {
  using Head = TaskHead::Task;
  static const std::vector<TaskWord> table = {
      {"classify",
       LearnedTask::classify,
       Head::classify,
       {TextLoss::cross_entropy, TextLoss::bce_with_logits, TextLoss::mse}},
      {"tag", LearnedTask::tag, Head::tag, {TextLoss::cross_entropy}},
      {"rerank",
       LearnedTask::rerank,
       Head::classify,
       {TextLoss::binary_cross_entropy, TextLoss::rank_net, TextLoss::list_net, TextLoss::margin_mse, TextLoss::mse}},
      {"embed",
       LearnedTask::embed,
       Head::classify,
       {TextLoss::multiple_negatives, TextLoss::cosent, TextLoss::cosine_similarity, TextLoss::margin_mse}}};
  return table;
}

const TaskWord& word_of(LearnedTask task) {
  return *std::find_if(tasks().begin(), tasks().end(), [&](const TaskWord& word) { return word.task == task; });
}

std::string names_of(const std::vector<TextLoss>& losses) {
  std::string names;
  for (const TextLoss loss : losses) {
    names += (names.empty() ? "" : ", ") + std::string(words(loss)[static_cast<std::size_t>(loss)]) + "Loss";
  }
  return names;
}

/// The loss of this name, with or without the ending Loss.
std::optional<TextLoss> loss_named(std::string name) {
  if (name.ends_with("Loss")) name.resize(name.size() - 4);
  const auto names = words(TextLoss());
  const auto at = std::find(names.begin(), names.end(), name);
  return at != names.end() ? std::optional(static_cast<TextLoss>(at - names.begin())) : std::nullopt;
}

/// The Matryoshka dimensions, from the largest on, with their weights.
void read_dimensions(ConfigSection& loss, TextOptions& options) {
  options.dimensions = loss.integers("matryoshka_dims");
  if (options.dimensions.empty()) loss.refuse("matryoshka_weights", "it has no effect without matryoshka_dims");
  options.dimension_weights = loss.numbers("matryoshka_weights");
  if (options.dimension_weights.empty()) options.dimension_weights.assign(options.dimensions.size(), 1.0);
  if (options.dimension_weights.size() != options.dimensions.size()) {
    loss.fail("matryoshka_weights", fmt::format("expected {} numbers, one for each dimension, got {}",
                                                options.dimensions.size(), options.dimension_weights.size()));
  }
  for (const std::int64_t d : options.dimensions) {
    if (d < 1) loss.fail("matryoshka_dims", "expected dimensions from 1 on");
  }
}

}  // namespace

std::optional<TextOptions> read_text_options(ConfigSection& train, ConfigSection& loss, bool has_texts) {
  constexpr const char* kLossKeys[] = {
      "name", "scale", "symmetric", "matryoshka_dims", "matryoshka_weights", kDocumentWeight, kQueryWeight};
  const auto refuse = [&](const char* key, const std::string& why) { loss.refuse(key, why); };
  if (!has_texts) {
    train.refuse("task", "it applies to data.texts only");
    for (const char* key : kLossKeys) refuse(key, "it applies to data.texts only");
    loss.finish();
    return {};
  }
  std::vector<std::pair<std::string, LearnedTask>> names;
  for (const TaskWord& word : tasks()) names.emplace_back(word.name, word.task);
  if (!train.has("task")) train.fail("task", "the key is missing: classify, tag, rerank or embed");
  TextOptions options;
  options.task = train.choice<LearnedTask>("task", names);
  if (const std::string name = loss.text("name", ""); !name.empty()) {
    options.loss = loss_named(name);
    const std::vector<TextLoss>& known = word_of(options.task).losses;
    if (!options.loss || std::find(known.begin(), known.end(), *options.loss) == known.end()) {
      loss.fail("name", fmt::format("expected {}, got \"{}\"", names_of(known), name));
    }
  }
  const TextLoss usual = options.loss.value_or(word_of(options.task).losses.front());
  const bool is_ranking = usual == TextLoss::multiple_negatives;
  if (!is_ranking && usual != TextLoss::cosent) refuse("scale", "this loss has none");
  if (loss.has("scale")) options.scale = loss.number("scale", 1, 1e-9, kMaxOfLoss);
  if (!is_ranking) refuse("symmetric", "it applies to MultipleNegativesRankingLoss only");
  options.is_symmetric = loss.flag("symmetric", false);
  for (const char* key : {"matryoshka_dims", "matryoshka_weights", kDocumentWeight, kQueryWeight}) {
    if (options.task != LearnedTask::embed) refuse(key, "it applies to task = \"embed\" only");
  }
  read_dimensions(loss, options);
  options.flops = {loss.number(kDocumentWeight, 0, 0, kMaxOfLoss), loss.number(kQueryWeight, 0, 0, kMaxOfLoss)};
  loss.finish();
  return options;
}

void read_new_head(ConfigSection& model, std::vector<std::string>& labels, std::optional<TaskHead::Problem>& problem) {
  using Problem = TaskHead::Problem;
  labels = model.texts("labels");
  if (labels.empty()) model.refuse("problem_type", "it has no effect without labels");
  const auto choice =
      model.choice<int>("problem_type", {{"", -1},
                                         {"single_label_classification", static_cast<int>(Problem::one_label)},
                                         {"multi_label_classification", static_cast<int>(Problem::several_labels)},
                                         {"regression", static_cast<int>(Problem::regression)}});
  if (choice >= 0) problem = static_cast<Problem>(choice);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (std::find(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(i), labels[i]) ==
        labels.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    model.fail("labels", fmt::format("\"{}\" appears twice", labels[i]));
  }
}

TextObjective text_objective(const TextOptions& o, const ModelConfig& model, bool has_words, std::int64_t width) {
  const TaskWord& word = word_of(o.task);
  TextObjective objective{
      o.task, o.loss.value_or(word.losses.front()), 20, o.is_symmetric, o.dimensions, o.dimension_weights};
  const bool has_products = has_words && objective.loss == TextLoss::multiple_negatives;
  objective.scale = o.scale.value_or(has_products ? 1 : 20);
  if (has_words) objective.flops = o.flops;
  if (o.flops != TextObjective::Flops() && !has_words) {
    throw BadInput("loss", "{} and {} are of models whose vectors are weights of words (SpladePooling)",
                   kDocumentWeight, kQueryWeight);
  }
  if (has_words && !o.dimensions.empty()) {
    throw BadInput("loss.matryoshka_dims", "vectors that are weights of words have no first dimensions");
  }
  if (o.task == LearnedTask::embed) {
    if (model.encoder) throw Unsupported("train.task", "vectors of an encoder–decoder cannot be learned");
    for (const std::int64_t d : o.dimensions) {
      if (d <= width) continue;
      throw BadInput("loss.matryoshka_dims", "expected at most {}, the width of a vector, got {}", width, d);
    }
    return objective;
  }
  if (!model.task || model.task->task != word.head) {
    throw BadInput("train.task", "the model has no head for \"{}\": model.labels adds one", word.name);
  }
  if (o.task == LearnedTask::rerank && model.task->n_labels() != 1) {
    throw BadInput("train.task", "expected a reranker with one label, got {} labels", model.task->n_labels());
  }
  if (o.task == LearnedTask::classify && !o.loss) objective.loss = loss_of_problem(*model.task);
  return objective;
}

}  // namespace vitrine
