// minGPT's JSON checkpoints (base64 float32), as bbycroft/llm-viz ships one with every intermediate value.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"

namespace vitrine::test {

struct JsonTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};

/// All tensors of such a file by name; `config` is left out.
std::map<std::string, JsonTensor> read_json_tensors(const std::string& path);
std::shared_ptr<const Model> load_min_gpt(const std::string& path);

}  // namespace vitrine::test
