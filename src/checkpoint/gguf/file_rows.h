// What a GGUF file does to the rows and columns of a matrix of a mixer with a state, and of the factors that
// architectures fold into weights. A file of a model and an adapter for it follow the same rules.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/architecture.h"
#include "checkpoint/tensor_rules.h"

namespace vitrine {

/// The order of rows or columns that belong to the heads of a delta net, `size` each: in the file, the heads of a key
/// are `n_keys` apart, in the parameter next to each other.
struct HeadOrder {
  std::int64_t n_heads = 0, n_keys = 0, size = 0;  ///< 0: they are in the parameter's order.
  std::int64_t first = 0;                          ///< Rows before those of heads.

  /// The parameter's head that is head `head` of the file.
  std::int64_t source(std::int64_t head) const { return head % n_keys * (n_heads / n_keys) + head / n_keys; }
  /// The parameter's row or column that is number `i` of the file.
  std::int64_t element(std::int64_t i) const {
    if (size == 0 || i < first) return i;
    return first + source((i - first) / size) * size + (i - first) % size;
  }
  /// The order that undoes this one.
  HeadOrder inverse() const { return size == 0 ? *this : HeadOrder{n_heads, n_heads / n_keys, size, first}; }
};

/// The orders of a delta net's tensor.
struct HeadOrders {
  HeadOrder rows, columns;
};

/// Those of a delta net's parameter `ours` of `n_rows` rows in files where heads alternate.
HeadOrders head_orders(const DeltaNetConfig& net, std::string_view ours, std::int64_t n_rows);

/// The next `count` rows of a parameter, which the file has times `factor`.
struct FoldedRows {
  std::int64_t count = 0;
  float factor = 1;
};

/// The factors of all `n_rows` rows of the parameter `ours`: of what it reads, and of what is done to its result. A
/// bias has just the latter. Empty: the file has the rows as they are.
std::vector<FoldedRows> folded_rows(const GgufArchitecture& architecture, const ModelConfig& config, std::int64_t layer,
                                    std::string_view ours, std::int64_t n_rows);

/// A tensor of the file that has some rows of a parameter: of q, k and v of each key head, or of z.
struct RowsApart {
  std::string_view end;  ///< Of its name.
  std::vector<RowRun> runs;
};

/// The tensors of a parameter that holds q, k, v and z of each key head.
std::vector<RowsApart> rows_apart(const DeltaNetConfig& config);

}  // namespace vitrine
