#include "cli/eval_dictionaries.h"

#include <fmt/format.h>

#include "checkpoint/safetensors.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "inspect/encoder_statistics.h"
#include "inspect/feature_reader.h"

namespace vitrine::cli {
namespace {

/// A metric: its name in the JSON, its name in the table, its value.
struct Metric {
  const char* name;
  const char* heading;
  double (*value)(const DictionaryQuality&);
};

using Quality = DictionaryQuality;

constexpr Metric kMetrics[] = {
    {"l0", "L0", [](const Quality& q) { return q.l0; }},
    {"l1", "L1", [](const Quality& q) { return q.l1; }},
    {"explained_variance", "explained variance", [](const Quality& q) { return q.reconstruction.explained_variance; }},
    {"mse", "squared error", [](const Quality& q) { return q.reconstruction.mse; }},
    {"cossim", "cosine", [](const Quality& q) { return q.reconstruction.cossim; }},
    {"l2_norm_in", "norm of the site", [](const Quality& q) { return q.reconstruction.l2_norm_in; }},
    {"l2_norm_out", "norm of the reconstruction", [](const Quality& q) { return q.reconstruction.l2_norm_out; }},
    {"l2_ratio", "ratio of the norms", [](const Quality& q) { return q.reconstruction.l2_ratio; }},
    {"relative_reconstruction_bias", "relative bias",
     [](const Quality& q) { return q.reconstruction.relative_reconstruction_bias; }},
    {"ce_loss_without_sae", "loss", [](const Quality& q) { return q.preservation.loss_without; }},
    {"ce_loss_with_sae", "loss with the reconstruction", [](const Quality& q) { return q.preservation.loss_with; }},
    {"ce_loss_with_ablation", "loss with zeros", [](const Quality& q) { return q.preservation.loss_ablated; }},
    {"ce_loss_score", "score by loss", [](const Quality& q) { return q.preservation.loss_score(); }},
    {"kl_div_with_sae", "KL with the reconstruction", [](const Quality& q) { return q.preservation.kl_with; }},
    {"kl_div_with_ablation", "KL with zeros", [](const Quality& q) { return q.preservation.kl_ablated; }},
    {"kl_div_score", "score by KL", [](const Quality& q) { return q.preservation.kl_score(); }},
};

}  // namespace

EvaluatedDictionaries evaluate_dictionaries(const GenerateContext& context, std::span<const std::int32_t> text,
                                            const EvalConfig& config) {
  DictionaryEvaluation dictionaries(context);
  ProgressBar bar("eval");
  const ScoreWindow score_window = [&](std::span<const std::int32_t> ids, std::int64_t first_row,
                                       const std::function<void(std::int64_t)>& done) {
    const double nats = dictionaries.add(ids, first_row);
    done(std::ssize(ids));
    return nats;
  };
  const Evaluation evaluation = evaluate_windows(context, text, config, score_window, bar.reporter());
  return {evaluation, dictionaries.results()};
}

void add_qualities(const std::vector<DictionaryQuality>& qualities, Json& object) {
  Json saes = Json::array();
  for (const Quality& quality : qualities) {
    const Dictionary& d = *quality.dictionary;
    Json sae = {
        {"name", d.name.empty() ? Json() : Json(d.name)}, {"site", name_of(d.output)}, {"tokens", quality.tokens}};
    for (const Metric& metric : kMetrics) sae[metric.name] = metric.value(quality);
    sae["dead"] = quality.dead();
    saes.push_back(std::move(sae));
  }
  object["saes"] = std::move(saes);
}

std::string to_string(const std::vector<DictionaryQuality>& qualities) {
  std::vector<Table::Column> columns = {{""}};
  for (const Quality& quality : qualities) columns.push_back({key_of(*quality.dictionary), Table::Align::right});
  Table table(columns);
  const auto add = [&](const char* heading, const auto& text_of) {
    std::vector<std::string> cells = {heading};
    for (const Quality& quality : qualities) cells.push_back(text_of(quality));
    table.add(cells);
  };
  add("tokens", [](const Quality& q) { return grouped(q.tokens); });
  for (const Metric& metric : kMetrics) {
    add(metric.heading, [&](const Quality& q) { return fmt::format("{:.4f}", metric.value(q)); });
  }
  add("dead features", [](const Quality& q) { return fmt::format("{} of {}", q.dead(), q.n_active.size()); });
  return table.text();
}

void write_feature_statistics(const std::string& path, const std::vector<DictionaryQuality>& qualities,
                              ThreadPool& pool) {
  SafetensorsWriter writer(path, header_bytes_for(3 * qualities.size()));
  for (const Quality& quality : qualities) {
    const std::string key = key_of(*quality.dictionary);
    std::vector<float> density;
    for (const std::int64_t n : quality.n_active) {
      density.push_back(static_cast<float>(static_cast<double>(n) / static_cast<double>(quality.tokens)));
    }
    const auto add = [&](const char* name, std::vector<float>& values) {
      writer.add(fmt::format("{}.{}", key, name), Tensor{values.data(), {std::ssize(values)}});
    };
    EncoderStatistics weights = encoder_statistics(*quality.dictionary, pool);
    add("feature_density", density);
    add("encoder_norm", weights.norms);
    if (!weights.cosines.empty()) add("encoder_decoder_cosine_sim", weights.cosines);
  }
  writer.commit();
}

}  // namespace vitrine::cli
