// Quantized weights of Hugging Face folders: quantization_config, and the tensors that hold a weight together.
//
//   fp8     NAME in E4M3, NAME_scale_inv with a factor for each block of rows and columns, for each row or for all
//   mxfp4   NAME_blocks with bytes of two elements `[…, rows, columns / 32, 16]`, NAME_scales with exponents
//   gptq, awq, bitsandbytes, compressed-tensors   hugging_face/group_weights.h
//
// Source: huggingface/transformers, integrations/finegrained_fp8.py and integrations/mxfp4.py.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/bind_tensors.h"
#include "checkpoint/hugging_face/config_reader.h"
#include "checkpoint/hugging_face/group_config.h"
#include "checkpoint/tensor_rules.h"

namespace vitrine {

struct Quantization {
  enum class Method : std::uint8_t { none, fp8, mxfp4, gptq, awq, bitsandbytes, compressed };
  struct Block {
    std::int64_t rows, cols;
  };

  Method method = Method::none;
  std::optional<Block> block;      ///< Of fp8; none: a scale for each row, or one.
  bool block_is_default = false;   ///< The config does not say, and scales may be those of rows.
  bool scales_are_powers = false;  ///< Scales in bytes are exponents.
  GroupConfig groups{};            ///< Of the methods whose codes are in groups.
};

/// Reads quantization_config. Throws BadCheckpoint, Unsupported for another method, by its name.
Quantization read_quantization(ConfigReader& config);

/// Joins the tensors of each quantized weight to one with scales, under the weight's name. Throws BadCheckpoint if one
/// of them is missing or does not fit. Scales that are not aligned floats are copied.
void join_quantized(const Quantization& quantization, StoredTensors& tensors);

/// The scales of one of a tensor's matrices `[rows, cols]`, in its orientation; nothing if it has none.
BlockScales scales_of(const StoredTensor& tensor, std::int64_t rows, std::int64_t cols, std::int64_t matrix = 0);
/// Those of the i-th of the parameters of these shapes that a tensor holds.
BlockScales scales_of_param(const StoredTensor& tensor, const TensorPlace& place, const PlaceShape& shape,
                            const std::vector<Shape>& parts, std::size_t i);

}  // namespace vitrine
