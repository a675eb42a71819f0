// What quantization_config says about weights whose codes are in groups: GPTQ, AWQ, bitsandbytes, compressed-tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hugging_face/config_reader.h"
#include "checkpoint/hugging_face/module_list.h"

namespace vitrine {

/// The codes of a group of layers.
struct GroupKind {
  int bits = 4;
  std::int64_t group = 0;    ///< Columns; 0: the row; kWholeMatrix: one scale for all.
  bool is_float = false;     ///< E4M3, not whole numbers.
  bool is_packed = true;     ///< Several codes in a word; otherwise a byte for each.
  bool is_symmetric = true;  ///< No zeros are stored. For compressed-tensors, as the next one.
  ModuleList targets{};      ///< The modules.

  static constexpr std::int64_t kWholeMatrix = -1;
};

struct GroupConfig {
  std::vector<GroupKind> kinds{};   ///< One, but for compressed-tensors.
  std::string list{};               ///< The key of `skipped`.
  ModuleList skipped{};             ///< Modules that are not quantized.
  bool zeros_are_one_less = false;  ///< Stored zeros are (zero − 1) modulo 2^bits.
  bool rounds_activations = false;  ///< The file's own runtime multiplies rounded activations.
};

/// Each reads its method's keys. Throws BadCheckpoint, and Unsupported for what is not read, by its key.
GroupConfig read_gptq(const ConfigReader& config, ConfigReader& own);
GroupConfig read_awq(const ConfigReader& config, ConfigReader& own);
GroupConfig read_bitsandbytes(const ConfigReader& config, ConfigReader& own);
GroupConfig read_compressed(const ConfigReader& config, ConfigReader& own);

/// Throws Unsupported for a value of a key of quantization_config, unless the caller allows that key.
void refuse_quantization(const ConfigReader& config, const std::string& what, std::string_view needs);

}  // namespace vitrine
