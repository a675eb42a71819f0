// An importance matrix: how large the inputs of each matrix are, from a text. An error of a weight matters in
// proportion to the square of the input that it is multiplied by.
//
// Two file formats, both of llama.cpp. GGUF: general.type "imatrix", imatrix.datasets, .chunk_count, .chunk_size; for
// each tensor of the model NAME.in_sum2 `[experts, cols]` and NAME.counts `[experts, 1]`, f32. The older .dat, little
// endian: int32 number of entries; for each int32 length, name, int32 number of chunks c, int32 n, n floats: the mean
// squares times c; then int32 number of chunks, int32 length, dataset; older files end before these. Source:
// ggml-org/llama.cpp, tools/imatrix/imatrix.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vitrine {

/// The inputs of one matrix, or of one matrix for each expert.
struct InputSquares {
  std::vector<double> sums;          ///< Σ x² of every column, expert by expert.
  std::vector<std::int64_t> counts;  ///< The number of rows x of each expert, or one for all.
};

struct ImportanceMatrix {
  std::map<std::string, InputSquares> tensors;  ///< By name in GGUF files.
  std::vector<std::string> datasets;
  std::int64_t n_chunks = 0;
  std::int64_t chunk_size = 512;  ///< Tokens.
  std::string path;               ///< Names the file in errors.

  /// Mean squares for a tensor of `copies` matrices of `cols` columns; 0 for an expert without rows; empty if there is
  /// no such tensor. Throws BadInput if it has another size.
  std::vector<float> weights_of(const std::string& tensor, std::int64_t cols, std::int64_t copies) const;
  /// Adds the sums and counts of another one. Throws BadInput if a tensor has another size there.
  void add(const ImportanceMatrix& other);
};

/// Reads either format. Throws BadInput for a file that does not exist, BadCheckpoint for a malformed one and for sums
/// that are negative or not finite.
ImportanceMatrix read_importance_matrix(const std::string& path);
/// Writes the GGUF format. Throws as FileWriter does.
void write_importance_matrix(const std::string& path, const ImportanceMatrix& matrix);

}  // namespace vitrine
