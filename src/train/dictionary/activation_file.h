// Rows of a file: data.activations.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/safetensors.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "train/dictionary/activation_source.h"

namespace vitrine {

/// `activations` `[N, d_in]` and, if a dictionary is a transcoder, `targets` `[N, d_out]`, in F32, F16 or BF16. Row r
/// of the run is row r mod N of the file, or, shuffled, of a permutation for each pass over it.
class ActivationFile final : public ActivationSource {
 public:
  /// Throws BadInput and BadCheckpoint if the file does not have the tensors.
  ActivationFile(const std::string& path, bool has_targets, bool is_shuffled, std::uint64_t seed, std::int64_t batch,
                 ThreadPool& pool, const Kernels& kernels);

  const std::vector<std::int64_t>& widths() const override { return widths_; }
  void read(std::int64_t step, const Tensor& rows) override;
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::string plan() const override;

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::int64_t> widths_;
  std::int64_t n_rows_ = 0;
  bool is_shuffled_;
  std::uint64_t seed_, fingerprint_ = 0;
  std::int64_t batch_;
  ThreadPool& pool_;
  const Kernels& kernels_;
};

}  // namespace vitrine
