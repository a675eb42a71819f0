// Writing a model as a Hugging Face folder, by the same table of tensors that reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/json.h"
#include "base/progress.h"
#include "checkpoint/family.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Gives the elements [first_col, first_col + out.size()) of one row of parameter number `param` in for_each_param's
/// list (a vector is one row). Called from several threads.
using ParamValues =
    std::function<void(std::size_t param, std::int64_t row, std::int64_t first_col, std::span<float> out)>;

/// How a file that is there holds a model, where a table knows several ways.
struct StoredForm {
  std::string prefix;           ///< Under which its tensors stand.
  std::set<std::string> names;  ///< Of its tensors, with the prefix.
};

/// Writes `path`, a .safetensors file with the tensors of `config` under the family's names, in its orientation,
/// rounded to `dtype` (f32, f16 or bf16), in the form `as` (none: the family's usual one). Nothing is held but a few
/// MiB. Throws as FileWriter does, and what `report` throws.
void write_hugging_face_tensors(const std::string& path, const Family& family, const ModelConfig& config, DType dtype,
                                const ParamValues& values, ThreadPool& pool, const ReportProgress& report = {},
                                const std::optional<StoredForm>& as = std::nullopt);

/// Writes `path`, a config.json: `config` as it is given, with `dtype` as its torch_dtype and, where it has none, the
/// family's architecture. Throws as FileWriter does.
void write_config_json(const std::string& path, const Family& family, Json config, DType dtype);

}  // namespace vitrine
