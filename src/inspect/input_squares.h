// Collects the inputs of every matrix of a model: what an importance matrix is made of.
//
// The forward's ledger names the parameter that each linear map reads, so every matrix of every kind of block is found,
// and those that the text never reaches (experts) are known as well.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "checkpoint/gguf/importance_matrix.h"
#include "checkpoint/load.h"
#include "generate/context.h"

namespace vitrine {

class InputCollector {
 public:
  /// With `head`, the unembedding counts as well, whose logits cost time. Keeps references to its arguments. Throws
  /// Unsupported if GGUF has no names for the model's parameters.
  InputCollector(const GenerateContext& context, const Checkpoint& checkpoint, bool head);

  /// Runs the model over a window and adds the squares of the inputs. If it throws, the window adds nothing.
  void add(std::span<const std::int32_t> window);

  /// The sums of all windows, by the names in GGUF files.
  ImportanceMatrix result() const;

 private:
  /// One matrix, and its place in the tensor that holds it.
  struct Place {
    std::string tensor;
    std::int64_t copy = 0;
    std::int64_t cols = 0;
    std::vector<float> sums;  ///< Of the current window.
    std::int64_t count = 0;
  };

  void add_input(const LedgerOp& op);

  const GenerateContext& context_;
  bool head_;
  std::unordered_map<const Param*, Place> places_;
  ImportanceMatrix matrix_;
};

}  // namespace vitrine
