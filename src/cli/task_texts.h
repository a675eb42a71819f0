// Many texts through a model, for the scores of eval.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/text_inputs.h"
#include "generate/quantize_vectors.h"
#include "generate/text_vectors.h"

namespace vitrine::cli {

/// Options of commands that read whole texts, with so many texts at once.
TextInputOptions input_options(const Options& options, std::int64_t batch);

/// What is measured of the vectors that the folder makes.
struct TaskVectors {
  std::optional<std::int64_t> dimensions{};  ///< Their first elements.
  VectorPrecision precision = VectorPrecision::float32;
};

/// Texts that wait, and what the model makes of them. Vectors are those of `encode`, outputs those of `classify`.
class TaskTexts {
 public:
  /// The session must outlive the object.
  TaskTexts(const Session& session, const Options& options, std::int64_t batch, const TaskVectors& vectors);

  const Session& session() const { return session_; }
  /// Whether the model reads two texts together, for a score.
  bool reads_pairs() const;
  const SentenceConfig& config() const { return inputs_.config(); }

  void add(const std::string& text, const std::optional<std::string>& pair = {}) { inputs_.add(text, pair); }
  /// Adds words as one text. Returns the row of the first id of each; −1 for one that has none or is cut off.
  std::vector<std::int64_t> add_words(const std::vector<std::string>& words);
  /// The outputs of the head of the texts that wait, row by row; none waits after it.
  std::vector<std::vector<float>> outputs();

  /// Reads two lists of texts, each as what its role says, and makes vectors of both in the precision. The ranges of
  /// int8 and uint8 are those of both lists if the roles are the same, as in the EmbeddingSimilarityEvaluator of
  /// sentence-transformers, else those of the documents. Elements are numbers, and 0 or 1 for bits.
  std::pair<std::vector<TextVectors>, std::vector<TextVectors>> vectors(const std::vector<std::string>& first,
                                                                        TextRole role_of_first,
                                                                        const std::vector<std::string>& second,
                                                                        TextRole role_of_second);
  /// The score of each pair: of a model that reads pairs, else the similarity of the vectors, for which the first text
  /// is a query and the second a document, or both are alike.
  std::vector<double> pair_scores(const std::vector<std::pair<std::string, std::string>>& pairs, bool are_alike);
  void report_cut() const { inputs_.report_cut(); }

 private:
  std::vector<std::vector<float>> read_waiting(bool by_folder);
  std::vector<TextVectors> exact_vectors(const std::vector<std::string>& texts, TextRole role);

  const Session& session_;
  TextInputOptions options_;
  TextInputs inputs_;
  TaskVectors vectors_;
};

}  // namespace vitrine::cli
