#include "train/dictionary/activation_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/fingerprint.h"
#include "data/dataset.h"
#include "kernels/widen_row.h"

namespace vitrine {

ActivationFile::ActivationFile(const std::string& path, bool has_targets, bool is_shuffled, std::uint64_t seed,
                               std::int64_t batch, ThreadPool& pool, const Kernels& kernels)
    : path_(path), is_shuffled_(is_shuffled), seed_(seed), batch_(batch), pool_(pool), kernels_(kernels) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  file_ = file.file();
  Fingerprint fingerprint;
  for (const char* name : {"activations", "targets"}) {
    if (!has_targets && !tensors_.empty()) break;
    const auto it = file.tensors().find(name);
    if (it == file.tensors().end()) throw BadInput(path, "the tensor {} is missing", name);
    const StoredTensor& tensor = it->second;
    const bool is_float = tensor.type == DType::f32 || tensor.type == DType::f16 || tensor.type == DType::bf16;
    if (!is_float || tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
      throw BadInput(path, "{}: expected a matrix with a row for each activation, in F32, F16 or BF16", name);
    }
    if (n_rows_ != 0 && tensor.shape[0] != n_rows_) {
      throw BadInput(path, "{}: expected {} rows, as many as activations has, got {}", name, n_rows_, tensor.shape[0]);
    }
    n_rows_ = tensor.shape[0];
    widths_.push_back(tensor.shape[1]);
    tensors_.push_back(tensor);
    fingerprint.add(tensor.bytes.first(std::min<std::size_t>(tensor.bytes.size(), std::size_t{1} << 20)));
  }
  fingerprint.add(std::as_bytes(std::span(&n_rows_, 1)));
  fingerprint_ = fingerprint.value();
}

void ActivationFile::read(std::int64_t step, const Tensor& rows) {
  const auto n = static_cast<std::uint64_t>(n_rows_);
  pool_.parallel_for(rows.rows(), 64, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto number = static_cast<std::uint64_t>(step * batch_ + i);
      const std::uint64_t place = is_shuffled_ ? permuted(number % n, n, seed_, number / n) : number % n;
      float* to = rows.row(i);
      for (const StoredTensor& tensor : tensors_) {
        const std::int64_t width = tensor.shape[1];
        kernels_.widen(tensor.bytes.data() + bytes_of(*tensor.type, static_cast<std::int64_t>(place) * width),
                       *tensor.type, width, to);
        to += width;
      }
    }
  });
}

std::string ActivationFile::plan() const { return fmt::format("{}: {} rows", path_, n_rows_); }

}  // namespace vitrine
