#include "checkpoint/hugging_face/dense_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/hugging_face/open_tensors.h"
#include "tensor/dtype.h"

namespace vitrine {
namespace {

template <class Stored>
std::vector<Stored> elements_of(std::span<const std::byte> bytes) {
  std::vector<Stored> elements(bytes.size() / sizeof(Stored));
  std::memcpy(elements.data(), bytes.data(), elements.size() * sizeof(Stored));
  return elements;
}

}  // namespace

std::vector<float> floats_of(const StoredTensor& tensor, const std::string& name) {
  if (tensor.dtype == "F32") return elements_of<float>(tensor.bytes);
  std::vector<float> floats;
  if (tensor.dtype == "F64") {
    for (const double x : elements_of<double>(tensor.bytes)) floats.push_back(static_cast<float>(x));
    return floats;
  }
  const bool is_half = tensor.dtype == "F16";
  if (!is_half && tensor.dtype != "BF16") {
    throw Unsupported(tensor.file, "tensor {} is {}; F64, F32, F16 and BF16 are supported", name, tensor.dtype);
  }
  for (const std::uint16_t x : elements_of<std::uint16_t>(tensor.bytes)) {
    floats.push_back(is_half ? float_from_f16(x) : float_from_bf16(x));
  }
  return floats;
}

StoredTensors DenseWeights::open(const std::filesystem::path& folder) { return open_tensors(folder); }

Param DenseWeights::read(const std::string& stored, const std::vector<std::int64_t>& expected, const Shape& shape) {
  const auto it = tensors_.all.find(stored);
  if (it == tensors_.all.end()) throw BadCheckpoint(tensors_.where, "tensor {} is missing", stored);
  const StoredTensor& tensor = it->second;
  if (tensor.shape != expected) {
    throw BadCheckpoint(tensors_.where, "tensor {}: expected shape [{}], got [{}]", stored, fmt::join(expected, ", "),
                        fmt::join(tensor.shape, ", "));
  }
  used_.insert(stored);
  const auto floats = std::make_shared<const std::vector<float>>(floats_of(tensor, stored));
  storage_.push_back(floats);
  const std::int64_t cols = expected.back(), rows = expected.size() > 1 ? expected.front() : 1;
  return {name_ + "." + stored, stored, shape, view_of(floats->data(), rows, cols, cols)};
}

void DenseWeights::finish() const {
  for (const auto& [name, tensor] : tensors_.all) {
    if (!used_.contains(name)) throw BadCheckpoint(tensor.file, "tensor {} is not part of this module", name);
  }
}

}  // namespace vitrine
