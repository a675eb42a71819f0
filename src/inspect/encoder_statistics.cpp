#include "inspect/encoder_statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// Rows [first, first + n) of a matrix of any layout as floats.
void read_rows(const Kernels& kernels, const MatrixView& w, std::int64_t first, std::int64_t n, float* to) {
  if (w.col_stride == 1) {
    for (std::int64_t r = 0; r < n; ++r) kernels.widen(w.at(first + r, 0), w.dtype, w.cols, to + r * w.cols);
    return;
  }
  std::vector<float> column(static_cast<std::size_t>(n));
  for (std::int64_t c = 0; c < w.cols; ++c) {
    for (std::int64_t r = 0; r < n && w.row_stride != 1; ++r) {
      kernels.widen(w.at(first + r, c), w.dtype, 1, column.data() + r);
    }
    if (w.row_stride == 1) kernels.widen(w.at(first, c), w.dtype, n, column.data());
    for (std::int64_t r = 0; r < n; ++r) to[r * w.cols + c] = column[static_cast<std::size_t>(r)];
  }
}

}  // namespace

EncoderStatistics encoder_statistics(const Dictionary& d, ThreadPool& pool) {
  constexpr std::int64_t kRows = 64;
  const auto n = static_cast<std::size_t>(d.d_sae());
  const bool has_cosines = d.d_in() == d.d_out();
  EncoderStatistics result{std::vector<float>(n), std::vector<float>(has_cosines ? n : 0)};
  const Kernels& kernels = default_kernels();
  pool.parallel_for((d.d_sae() + kRows - 1) / kRows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> encoder(static_cast<std::size_t>(kRows * d.d_in()));
    std::vector<float> decoder(has_cosines ? encoder.size() : 0);
    for (std::int64_t first = begin * kRows; first < std::min(end * kRows, d.d_sae()); first += kRows) {
      const std::int64_t count = std::min(kRows, d.d_sae() - first);
      read_rows(kernels, d.encoder.view, first, count, encoder.data());
      if (has_cosines) read_rows(kernels, d.decoder.view, first, count, decoder.data());
      for (std::int64_t r = 0; r < count; ++r) {
        double ee = 0, dd = 0, ed = 0;
        for (std::int64_t c = 0; c < d.d_in(); ++c) {
          const auto i = static_cast<std::size_t>(r * d.d_in() + c);
          const double e = encoder[i], w = has_cosines ? decoder[i] : 0;
          ee += e * e;
          dd += w * w;
          ed += e * w;
        }
        const auto feature = static_cast<std::size_t>(first + r);
        result.norms[feature] = static_cast<float>(std::sqrt(ee));
        if (has_cosines) result.cosines[feature] = static_cast<float>(ed / std::sqrt(ee * dd));
      }
    }
  });
  return result;
}

}  // namespace vitrine
