// Linear probes: how well the labels of texts can be read from the value of a site (features/probe.h).
//
// A line of the data is `{"text": …, "label": …}`, with whole numbers, truth values or texts as labels. Each text
// becomes one vector, of which logistic regression learns the label.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "features/probe.h"
#include "generate/context.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

struct LabeledTexts {
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<Json> labels;
  std::vector<std::string> where;  ///< File and line, for messages.
};

/// Throws BadInput, naming the line, for one that is not such an object, for a text that is empty or longer than
/// `max_tokens`, and for a label of another type or of a type that an earlier line does not have.
LabeledTexts read_labeled_texts(const std::string& path, const Tokenizer& tokenizer, SpecialTokens special,
                                std::int64_t max_tokens);

/// Which value a probe reads.
struct ProbedSite {
  std::string site{};
  ProbePool pool = ProbePool::last;
};

/// How well a probe finds the labels of texts.
struct ProbeScores {
  std::int64_t n = 0;
  std::optional<double> auroc{};  ///< Of more than two labels the mean, each against the rest; none if one is missing.
  double accuracy = 0;
  double loss = 0;  ///< The mean −ln p of the labels, nats.
};

struct TrainedProbe {
  ProbeFacts facts{};
  std::vector<double> weight{}, bias{};  ///< `[n, d]`, `[n]`
  ProbeScores scores{};                  ///< Of the texts that it has learned.
  int iterations = 0;
  double gradient_norm = 0;
};

/// Throws BadInput for texts of one label only, and as dictionary_sites(), read_texts() and fit_logistic().
TrainedProbe train_probe(const GenerateContext& context, const LabeledTexts& texts, const ProbedSite& site, double c);

/// The scores of the probe of a file. Throws BadInput if the file does not name its labels, for a label that the probe
/// does not know, and for a site whose width is not that of the probe.
ProbeScores evaluate_probe(const GenerateContext& context, const LabeledTexts& texts, const ProbedSite& site,
                           const std::string& path, const ReadProbe& probe);

}  // namespace vitrine
