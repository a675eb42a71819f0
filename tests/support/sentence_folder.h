// A folder of sentence-transformers in tests, and what it makes of texts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/load.h"
#include "generate/text_vectors.h"

namespace vitrine::test {

/// Texts as a folder reads them.
struct PreparedTexts {
  std::vector<std::vector<std::int32_t>> ids{}, types{};
  std::vector<TextMarks> marks{};

  TextIds all() const { return {ids, types, marks}; }
  TextIds one(std::size_t i) const;
};

class SentenceFolder {
 public:
  /// Throws as load_checkpoint() does.
  explicit SentenceFolder(const std::string& path);

  /// Throws as read_sentence_config() does.
  SentenceConfig config(TextRole role = TextRole::any) const;
  /// `texts` is a list of strings.
  PreparedTexts prepare(const SentenceConfig& config, const Json& texts) const;
  std::vector<TextVectors> vectors(const SentenceConfig& config, const TextIds& texts, int threads = 1,
                                   const Kernels& kernels = default_kernels()) const;
  /// The score of each text with the first one as the query.
  std::vector<float> scores(const Json& texts) const;

 private:
  GenerateContext context(ThreadPool& pool, const Kernels& kernels) const;

  std::string path_;
  Checkpoint checkpoint_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

}  // namespace vitrine::test
