// minGPT's JSON checkpoints (base64 float32). bbycroft/llm-viz publishes one with all intermediate values.
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
