// Writes a model as a Hugging Face folder, with the table of tensors that is also used to read it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/json.h"
#include "base/progress.h"
#include "checkpoint/family.h"
#include "checkpoint/safetensors.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Copies the elements [first_col, first_col + out.size()) of one row of parameter number `param` in for_each_param's
/// list to `out`. A vector is one row. Called from several threads.
using ParamValues =
    std::function<void(std::size_t param, std::int64_t row, std::int64_t first_col, std::span<float> out)>;

/// The form of an existing file, if a table allows several.
struct StoredForm {
  std::string prefix;                                  ///< Of the names of its tensors.
  std::set<std::string> names;                         ///< Of the tensors to write, with the prefix.
  std::map<std::string, DType> types{};                ///< Of tensors whose type is not that of the others.
  std::map<std::string, std::string> names_in_file{};  ///< Of tensors whose name is to be another.
};

/// Writes `path`, a .safetensors file with the tensors of `config` in the family's names and orientation, rounded to
/// `dtype` (f32, f16 or bf16), in the form `as` (none: the family's usual form). Needs a few MiB of memory. Throws as
/// FileWriter and `report` do.
void write_hugging_face_tensors(const std::string& path, const Family& family, const ModelConfig& config, DType dtype,
                                const ParamValues& values, ThreadPool& pool, const ReportProgress& report = {},
                                const std::optional<StoredForm>& as = std::nullopt);

/// The same to `sink`.
void write_hugging_face_tensors(TensorSink& sink, const Family& family, const ModelConfig& config, DType dtype,
                                const ParamValues& values, ThreadPool& pool,
                                const std::optional<StoredForm>& as = std::nullopt);

/// Writes `config` to `path`, with `dtype` as its torch_dtype and, if it has no architectures, that of the family.
/// Throws as FileWriter does.
void write_config_json(const std::string& path, const Family& family, Json config, DType dtype);

}  // namespace vitrine
