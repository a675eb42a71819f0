// What the features of a dictionary did in the windows of a corpus: how often each was active, how strongly, and where
// most of all. The memory is that of the features, however long the corpus is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/append_file.h"
#include "checkpoint/safetensors.h"
#include "pass/sparse_rows.h"

namespace vitrine {

/// The bins of a histogram, of equal width. They cover [0, 2^e), or of a dictionary with negative activations [−2^e,
/// 2^e), where 2^e is the smallest power of two above the largest magnitude. When a larger one comes, pairs of bins are
/// added up, so the counts do not depend on the order of the values.
struct ActivationHistogram {
  static constexpr std::int32_t kBins = 32;
  static constexpr std::int32_t kMostExponent = 160;  ///< Of a float, and more.

  static std::int32_t exponent_of(float value);
  /// The first bin of values that are not negative.
  static std::int32_t first_bin(bool is_signed) { return is_signed ? kBins / 2 : 0; }
  static std::int32_t bin_of(float value, std::int32_t exponent, bool is_signed);
  /// Makes bins of [0, 2^from) those of [0, 2^to).
  static void widen(std::span<std::int32_t> bins, std::int32_t from, std::int32_t to, bool is_signed);
  /// The `kBins` + 1 edges.
  static std::vector<double> edges(std::int32_t exponent, bool is_signed);
};

/// An activation in a window.
struct WindowActivation {
  std::int32_t feature = 0, position = 0;
  float value = 0;
};

/// A context as a file of contexts has it, before its `count` activations (SparseValue: position and value).
struct StoredContext {
  std::int64_t start = 0;  ///< Names the window.
  std::int32_t position = 0, count = 0;
};

class FeatureRecords {
 public:
  /// Keeps `n_contexts` contexts of each feature. `contexts` receives each context that is among them when it comes; a
  /// stronger one may take its place later.
  FeatureRecords(std::int64_t d_sae, std::int64_t n_contexts, bool is_signed, AppendFile& contexts);

  /// Adds a window, whose activations are in any order, and reorders them.
  void add(std::int64_t start, std::span<WindowActivation> active);

  std::int64_t d_sae() const { return d_sae_; }
  bool is_signed() const { return is_signed_; }
  std::int64_t n_active(std::int64_t feature) const { return n_active_[static_cast<std::size_t>(feature)]; }
  const std::vector<std::int32_t>& histogram_counts() const { return bins_; }          ///< `[d_sae, kBins]`
  const std::vector<std::int32_t>& histogram_exponents() const { return exponents_; }  ///< `[d_sae]`
  /// The largest activation of each context of a feature, which is > 0: by falling value, then in the order of windows.
  std::span<const float> maxima(std::int64_t feature) const;
  /// Where these contexts are in the file of contexts.
  std::span<const std::int64_t> offsets(std::int64_t feature) const;

  /// The state as tensors, whose names begin with `prefix`.
  void write(SafetensorsWriter& to, const std::string& prefix) const;
  /// Throws BadCheckpoint for tensors of other shapes.
  void read(const SafetensorsFile& from, const std::string& prefix);

 private:
  void count(std::int32_t feature, std::span<const SparseValue> values);
  void keep(std::int32_t feature, std::int64_t start, std::span<const SparseValue> values);

  std::int64_t d_sae_, n_contexts_;
  bool is_signed_;
  AppendFile& contexts_;
  std::vector<float> maxima_;          // [d_sae, n_contexts], 0: no context
  std::vector<std::int64_t> offsets_;  // the same
  std::vector<std::int64_t> n_active_;
  std::vector<std::int32_t> bins_, exponents_;
};

}  // namespace vitrine
