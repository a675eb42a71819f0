// How a GGUF file makes one vector of a text, or one score of two: its pooling, and what sentence-transformers has
// around it under keys of vitrine's own, which llama.cpp ignores.
//
// EmbeddingGemma's two Dense modules are the tensors dense_2 and dense_3. Sources: ggml-org/llama.cpp,
// src/llama-graph.cpp (build_pooling, build_dense_out), conversion/base.py, conversion/gemma.py.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/gguf/architecture.h"
#include "checkpoint/hugging_face/sentence_transformers.h"

namespace vitrine {

/// Whether the path is a GGUF file.
bool is_gguf_file(const std::string& path);

/// Reads the file's keys and its Dense matrices into `config`. Throws BadCheckpoint for impossible values.
void read_gguf_sentences(const std::string& path, SentenceConfig& config);

/// What a file has of the steps after the model.
struct GgufSentences {
  GgufKeys keys{};
  std::vector<const Param*> dense{};  ///< dense_2 and dense_3; memory of `steps`.
  std::vector<std::string> notes{};   ///< What llama.cpp leaves out, one line each.
  TextSteps steps{};
};

/// That of the model at `path`, a folder or a GGUF file. Throws Unsupported, with its name, for a step or an option
/// that has no place in GGUF.
GgufSentences gguf_sentences(const std::string& path, const Checkpoint& checkpoint);

/// Removes the matrices of Dense from the tensors of a file, if its architecture has them: read_gguf_sentences() reads
/// them. Throws BadCheckpoint unless they are what the keys say.
void take_dense(const GgufArchitecture& architecture, const GgufMetadata& metadata, StoredTensors& tensors);

}  // namespace vitrine
