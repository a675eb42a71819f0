// The losses of models that read whole texts: classifiers, taggers, rerankers, and models that make vectors.
//
//   outputs [n, w] of the pieces of a batch ──▶ a loss, and its gradient [n, w], both in float64
//
// z: the outputs of an example; y: its labels; B: examples; σ: the sigmoid; s(a, b) = scale · cos(a, b).
//
//   CrossEntropyLoss              mean of −log softmax(z)[y], over texts, or over tokens that have a tag
//   BCEWithLogitsLoss             mean of −y log σ(z) − (1 − y) log σ(−z), over texts and labels
//   MSELoss                       mean of (z − y)², over texts and labels
//   BinaryCrossEntropyLoss        as BCEWithLogitsLoss, of pairs of a query and a document
//   RankNetLoss                   mean of −log₂ σ(z_i − z_j), over all i, j of one query with y_i > y_j
//   ListNetLoss                   mean over queries of −Σ softmax(y) · log softmax(z)
//   MarginMSELoss                 mean of (z_0 − z_i − y_i)²; document 0 is the positive one; of vectors z_i = a d_i
//   MultipleNegativesRankingLoss  mean over a of log Σ_d exp s(a, d) − s(a, p): p is a's own positive, d any document
//   of
//                                 the batch; symmetric: the mean of log Σ_d exp s(a, d) and log Σ_a' exp s(a', p)
//   CoSENTLoss                    log(1 + Σ exp(s_i − s_j)) over all pairs of examples with y_i < y_j
//   CosineSimilarityLoss          mean of (cos(a, b) − y)²
//   SpladeLoss                    another loss + λ_d F(documents) + λ_q F(anchors); F = Σ_k (mean of element k)²
//
// Vectors of words (SPLADE) have s(a, b) = scale · a b in MultipleNegativesRankingLoss. With Matryoshka dimensions, the
// loss of vectors is the weighted sum of the losses of their first elements.
//
// Sources: torch.nn; sentence-transformers 6.2, sentence_transformer/losses, cross_encoder/losses; Burges et al. 2005
// (RankNet), Cao et al. 2007 (ListNet), Henderson et al. 2017 (multiple negatives), Kusupati et al. 2022 (Matryoshka),
// Formal et al. 2021 (SPLADE), Paria et al. 2020 (FLOPS).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace vitrine {

enum class LearnedTask : std::uint8_t { classify, tag, rerank, embed };

enum class TextLoss : std::uint8_t {
  cross_entropy,
  bce_with_logits,
  mse,
  binary_cross_entropy,
  rank_net,
  list_net,
  margin_mse,
  multiple_negatives,
  cosent,
  cosine_similarity,
};

/// Their names, without the ending Loss.
constexpr auto words(TextLoss) {
  return std::to_array<std::string_view>({"CrossEntropy", "BCEWithLogits", "MSE", "BinaryCrossEntropy", "RankNet",
                                          "ListNet", "MarginMSE", "MultipleNegativesRanking", "CoSENT",
                                          "CosineSimilarity"});
}

struct TextObjective {
  LearnedTask task = LearnedTask::classify;
  TextLoss loss = TextLoss::cross_entropy;
  double scale = 20;                        ///< Of MultipleNegativesRanking and CoSENT.
  bool is_symmetric = false;                ///< Of MultipleNegativesRanking.
  std::vector<std::int64_t> dimensions{};   ///< Matryoshka; empty: the vectors as they are.
  std::vector<double> dimension_weights{};  ///< As many.
  /// λ_d and λ_q of vectors of words; absent: the vectors are of other kinds.
  struct Flops {
    double documents = 0, queries = 0;

    bool operator==(const Flops&) const = default;
  };
  std::optional<Flops> flops{};

  /// Whether the loss is a sum over examples, so that the parts of a batch can be computed one after another.
  bool is_sum() const { return loss != TextLoss::multiple_negatives && loss != TextLoss::cosent && !flops; }
  bool operator==(const TextObjective&) const = default;
};

/// What the sum of the examples' losses is divided by to be their mean: texts, labels, tokens with a tag, pairs of
/// documents. At least 1. `width`: the outputs of a piece.
double count_of_loss(const TextObjective& objective, std::span<const Batch::Example> examples, std::int64_t width);

struct TextLossResult {
  double loss = 0;
  std::vector<double> gradients;  ///< `[n, width]`, of the outputs.
};

/// The loss of examples whose pieces are consecutive. `outputs` `[n, width]`: those of their pieces; of a tagger, those
/// of the rows of their pieces. `count`: what their sum is divided by; other losses do not read it.
TextLossResult text_loss(const TextObjective& objective, std::span<const Batch::Example> examples,
                         std::span<const double> outputs, std::int64_t width, double count);

}  // namespace vitrine
