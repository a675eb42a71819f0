// The keys of a training config that are about texts: train.task, [loss], and the labels of a new head.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "train/config_section.h"
#include "train/text_loss.h"

namespace vitrine {

struct TextOptions {
  LearnedTask task = LearnedTask::classify;
  std::optional<TextLoss> loss{};  ///< Absent: the usual one of the task and the head.
  std::optional<double> scale{};   ///< Absent: 20, or 1 of products of vectors of words.
  bool is_symmetric = false;
  std::vector<std::int64_t> dimensions{};
  std::vector<double> dimension_weights{};
  TextObjective::Flops flops{};

  bool operator==(const TextOptions&) const = default;
};

/// Reads train.task and [loss]; nothing, and refuses them, without `has_texts`. Throws as ConfigSection does.
std::optional<TextOptions> read_text_options(ConfigSection& train, ConfigSection& loss, bool has_texts);
/// Reads model.labels and model.problem_type.
void read_new_head(ConfigSection& model, std::vector<std::string>& labels, std::optional<TaskHead::Problem>& problem);

/// What a model learns. `has_words`: its vectors, of `width` elements, are weights of the words of its vocabulary.
/// Throws BadInput if it has no head for the task, and for a loss or dimensions that do not fit.
TextObjective text_objective(const TextOptions& options, const ModelConfig& model, bool has_words, std::int64_t width);

}  // namespace vitrine
