#include "checkpoint/hugging_face/static_embedding.h"

#include <cstring>

#include "base/error.h"
#include "checkpoint/hugging_face/dense_weights.h"
#include "checkpoint/hugging_face/open_tensors.h"
#include "model/params.h"

namespace vitrine {
namespace {

/// Whole numbers of a tensor.
std::vector<std::int64_t> numbers_of(const StoredTensor& tensor, const std::string& name) {
  const bool is_long = tensor.dtype == "I64";
  if (!is_long && tensor.dtype != "I32") {
    throw Unsupported(tensor.file, "tensor {} is {}; I64 and I32 are supported", name, tensor.dtype);
  }
  const std::size_t size = is_long ? 8 : 4;
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at + size <= tensor.bytes.size(); at += size) {
    std::int64_t number = 0;
    std::int32_t narrow = 0;
    is_long ? std::memcpy(&number, tensor.bytes.data() + at, size)
            : std::memcpy(&narrow, tensor.bytes.data() + at, size);
    numbers.push_back(is_long ? number : narrow);
  }
  return numbers;
}

/// The table with a row for each id.
struct Table {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> values{};
};

Table read_table(const StoredTensors& tensors) {
  const auto find = [&](const char* name) {
    const auto it = tensors.all.find(name);
    return it == tensors.all.end() ? nullptr : &it->second;
  };
  const StoredTensor* const plain = find("embedding.weight");
  const StoredTensor* const stored = plain != nullptr ? plain : find("embeddings");
  if (stored == nullptr) throw BadCheckpoint(tensors.where, "expected a tensor embedding.weight or embeddings");
  for (const auto& [name, tensor] : tensors.all) {
    const bool is_known =
        plain != nullptr ? name == "embedding.weight" : name == "embeddings" || name == "mapping" || name == "weights";
    if (!is_known) throw BadCheckpoint(tensor.file, "tensor {} is not part of a table of embeddings", name);
  }
  if (stored->shape.size() != 2) throw BadCheckpoint(stored->file, "expected a table of embeddings with two axes");
  Table table{stored->shape[0], stored->shape[1], floats_of(*stored, "the table of embeddings")};
  if (plain != nullptr) return table;
  if (const StoredTensor* const mapping = find("mapping")) {
    std::vector<float> mapped;
    const std::vector<std::int64_t> rows = numbers_of(*mapping, "mapping");
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= table.rows) throw BadCheckpoint(mapping->file, "mapping: expected a row, got {}", row);
      const auto first = table.values.begin() + row * table.cols;
      mapped.insert(mapped.end(), first, first + table.cols);
    }
    table.rows = std::ssize(rows);
    table.values = std::move(mapped);
  }
  if (const StoredTensor* const weights = find("weights")) {
    const std::vector<float> factors = floats_of(*weights, "weights");
    if (std::ssize(factors) != table.rows) {
      throw BadCheckpoint(weights->file, "weights: expected {} factors, got {}", table.rows, factors.size());
    }
    for (std::size_t i = 0; i < table.values.size(); ++i) {
      const double factor = static_cast<double>(factors[i / static_cast<std::size_t>(table.cols)]);
      table.values[i] = static_cast<float>(static_cast<double>(table.values[i]) * factor);
    }
  }
  return table;
}

}  // namespace

Checkpoint load_static_embedding(const std::string& folder) {
  const StoredTensors tensors = open_tensors(folder);
  Table read = read_table(tensors);
  const auto table = std::make_shared<const Table>(std::move(read));
  ModelConfig config;
  config.d_model = table->cols;
  config.vocab_size = table->rows;
  config.max_seq_len = kMaxSize;
  config.blocks.resize(1);  // without sublayers
  config.has_head = false;
  ModelParams params = empty_params(config);
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
    param = {name, "embedding.weight", shape, view_of(table->values.data(), table->rows, table->cols, table->cols)};
  });
  Checkpoint result;
  result.model =
      std::make_shared<const Model>(config, std::move(params), std::vector<std::shared_ptr<const void>>{table});
  result.files = tensors.files;
  result.description = "StaticEmbedding, sentence-transformers folder";
  result.family = "static_embedding";
  result.tokenizer_path = folder;
  return result;
}

}  // namespace vitrine
