#include "checkpoint/hugging_face/open_tensors.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/safetensors.h"

namespace vitrine {

namespace fs = std::filesystem;

namespace {

void add_file(StoredTensors& tensors, const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  for (const auto& [name, tensor] : file.tensors()) {
    const auto [it, is_new] = tensors.all.emplace(name, tensor);
    if (is_new) continue;  // a comparison reads all bytes
    const StoredTensor& other = it->second;
    const bool same = other.dtype == tensor.dtype && other.shape == tensor.shape &&
                      std::equal(other.bytes.begin(), other.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    if (!same) throw BadCheckpoint(path, "tensor {} is also in another shard, with other values", name);
  }
  tensors.add(file.file());
}

}  // namespace

bool may_exist(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type() != fs::file_type::not_found;
}

StoredTensors open_tensors(const fs::path& folder) {
  StoredTensors tensors;
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (may_exist(single)) {
    tensors.where = single.string();
    add_file(tensors, single.string());
    return tensors;
  }
  if (!may_exist(index)) {
    const bool is_pickled =
        may_exist(folder / "pytorch_model.bin") || may_exist(folder / "pytorch_model.bin.index.json");
    throw BadInput(
        folder.string(), "expected model.safetensors or model.safetensors.index.json in the folder{}",
        is_pickled ? " (pytorch_model.bin is a pickle, which can run any code: save it as safetensors)" : "");
  }
  tensors.where = index.string();
  const Json json = read_json_file(index.string());
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw BadCheckpoint(tensors.where, "expected a weight_map");
  }
  std::set<std::string> shards;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    const bool is_name = shard.is_string() && fs::path(shard.get<std::string>()).filename() == shard.get<std::string>();
    if (!is_name) throw BadCheckpoint(tensors.where, "tensor {}: expected the name of a file in this folder", name);
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) add_file(tensors, (folder / shard).string());
  return tensors;  // the shards decide what there is: a weight_map may be older than they are
}

}  // namespace vitrine
