// The types of GGUF files, and the type of each of their tensors.
//
// A file is named after the type of most of its matrices. Some of them matter more for the model's output and have more
// bits: the head, the projections of v, the down projections, and those of the first and the last layers. mxfp4 is for
// experts; all other matrices are q8_0.
// Source: ggml-org/llama.cpp, src/llama-quant.cpp, include/llama.h (enum llama_ftype).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "tensor/dtype.h"

namespace vitrine {

struct MixRule;

struct FileType {
  std::string_view name;
  std::uint32_t number;        ///< general.file_type
  DType dtype;                 ///< Of most matrices.
  std::vector<MixRule> rules;  ///< Of the others; the first that applies counts.
};

/// In the order of their sizes, largest first.
const std::vector<FileType>& file_types();
/// The type of a name, or of one of the short names q3_k, q4_k and q5_k, which mean the mix of medium size. Throws
/// BadInput for others.
const FileType& file_type_named(std::string_view name);

/// What the rules ask of a model.
struct MixModel {
  std::string_view architecture;  ///< general.architecture
  std::int64_t n_layers = 0, n_experts = 0;
  std::int64_t heads_per_kv_head = 1;  ///< In the first layer; 0 if it has a state and others do not.
  bool tied = false;
  bool weighted = false;  ///< Whether there is an importance matrix.

  /// The names of the tensors of v, and of the last of each feed-forward, layer by layer.
  std::vector<std::string> values{}, downs{};

  /// lists_heads: the file has the K/V heads of each layer, 0 for those with a state.
  MixModel(std::string_view name, const ModelConfig& config, bool lists_heads = false);
  /// Adds the tensor to one of the two, or to none.
  void count(const std::string& tensor);
};

/// The type of a matrix whose rows have `cols` elements, by its name in the file.
DType mixed_type(const FileType& file, const MixModel& model, const std::string& tensor, std::int64_t cols);

/// `wanted`, or the type that replaces it where rows are not whole blocks.
DType fitting_type(DType wanted, std::int64_t cols);

}  // namespace vitrine
