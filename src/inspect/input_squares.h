// Collects the inputs of every matrix of a model: what an importance matrix is made of.
//
// The forward's ledger names the parameter that each linear map reads, so every matrix of every kind of block is found,
// and those that the text never reaches (experts) are known as well. A weight of which each head multiplies by rows of
// its own has sums for each head, one after another, and one count, as llama.cpp stores them.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/gguf/importance_matrix.h"
#include "checkpoint/gguf/plan.h"
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
    std::int64_t cols = 0, n_heads = 1;
    HeadOrder columns{};      ///< The order of the columns in the file.
    bool is_product = false;  ///< The input is the result of the op, a norm, instead of its input.
    std::vector<float> sums;  ///< Of the current window.
    std::int64_t count = 0;
  };

  /// A matrix, or the rows of each head from that one on; or the weight of the norm before it.
  using Key = std::pair<const Param*, std::int64_t>;

  void add_place(const PlannedTensor& tensor, std::int64_t copy, const Key& key, bool is_product = false);
  void add_input(const LedgerOp& op);
  void add_input(Place& place, const LedgerOp& op);

  const GenerateContext& context_;
  bool head_;
  std::map<Key, std::vector<Place>> places_;  ///< A matrix may be in several tensors.
  ImportanceMatrix matrix_;
};

}  // namespace vitrine
