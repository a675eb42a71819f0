// The tensors of a GGUF file of a model: their names, types and shapes, and the parameters in them.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file_rows.h"
#include "checkpoint/gguf/importance_matrix.h"
#include "checkpoint/gguf/quantization_mix.h"
#include "checkpoint/load.h"
#include "ops/by_head.h"

namespace vitrine {

/// The types of a file.
struct GgufTypes {
  /// A type for the tensors whose names contain a match of the regex.
  struct Override {
    std::regex pattern;
    DType dtype;
  };

  const FileType* file;
  std::vector<Override> overrides{};             ///< The first that matches counts.
  bool pure = false;                             ///< All matrices have the file's type.
  bool allow_requantize = false;                 ///< Blocks may become other blocks.
  const ImportanceMatrix* importance = nullptr;  ///< Of the tensors, by their names in the file.
  bool measures_errors = false;                  ///< Sets PlannedTensor::error of the matrices.

  GgufTypes(const FileType& type) : file(&type) {}  // NOLINT(google-explicit-constructor): a type is such a set
  /// The file type of that name; of a K-quant with several mixes, the one of medium size.
  GgufTypes(DType dtype);  // NOLINT(google-explicit-constructor)
};

/// A parameter as a source of the file's rows.
struct SourceRows {
  const Param* param = nullptr;
  std::int64_t rows = 0;               ///< A vector's elements are rows of one.
  std::int64_t first = 0;              ///< The parameter's row that is the part's first.
  float offset = 0;                    ///< Added to every element: the weight_offset of a norm.
  std::int64_t head_dim = 0;           ///< Of the heads within which rows are permuted; 0: they are not.
  std::int64_t rope_dim = 0;           ///< The rows of each head that RoPE rotates,
  bool to_pairs = true;                ///< which are permuted from halves to interleaved pairs, or back.
  bool repeats_first = false;          ///< All rows are the parameter's first.
  float factor = 1;                    ///< Of every element.
  bool to_rates = false;               ///< The elements are log(−A), and A is written.
  std::optional<HeadRows> of_heads{};  ///< The rows of each head that are written, transposed or as they are.

  HeadOrder columns{};  ///< The order of the columns.

  /// The parameter's row for row `row` of the file; not of transposed rows.
  std::int64_t source(std::int64_t row) const;
};

struct PlannedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  DType wanted = DType::f32;  ///< `dtype`, unless rows are not whole blocks of this type.
  bool is_matrix = false;     ///< Its type follows from the file's.
  bool multiplies = true;     ///< Rows by columns; false: a convolution, or rates of decay.
  std::vector<SourceRows> parts;
  std::int64_t n_copies = 1;        ///< The number of experts if `parts` are experts.
  std::int64_t n_heads = 1;         ///< Heads that multiply by rows of their own, which have inputs of their own.
  std::vector<float> importance;    ///< Of the columns, for each expert or head; empty: all alike.
  std::int64_t rows = 0, cols = 0;  ///< A vector has one column.

  /// √(Σ w (x − y)² / Σ w x²) of the elements x and what is stored of them, y, if it was measured. w: the importance.
  std::optional<double> error{};

  std::int64_t bytes() const { return bytes_of(dtype, rows * cols); }
  /// The importance of the columns in row `row` of a part; null if all are alike, or all are 0.
  const float* importance_of(std::size_t part, std::int64_t row = 0) const;
  std::int64_t rows_of_head() const { return rows / n_heads; }
};

/// The tensors in the order of the file. Throws Unsupported if the model has parameters for which GGUF has no names,
/// BadInput if blocks would become other blocks, or if the importance matrix is of another model. `where` names the
/// file in errors.
std::vector<PlannedTensor> plan_tensors(const GgufArchitecture& architecture, const Checkpoint& checkpoint,
                                        const GgufTypes& types, const std::string& where);

}  // namespace vitrine
