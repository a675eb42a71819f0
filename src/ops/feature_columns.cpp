#include "ops/feature_columns.h"

#include <algorithm>

#include "ops/linear.h"

namespace vitrine {
namespace {

constexpr std::int64_t kFeaturesAtOnce = 16;

}  // namespace

FeatureColumns columns_of(const SparseRows& rows, std::int64_t d_sae) {
  FeatureColumns columns;
  columns.first_of_row.reserve(rows.rows.size() + 1);
  columns.first_of_row.push_back(0);
  columns.first.resize(static_cast<std::size_t>(d_sae) + 1);
  for (const auto& row : rows.rows) {
    columns.first_of_row.push_back(columns.first_of_row.back() + std::ssize(row));
    for (const SparseValue& value : row) ++columns.first[static_cast<std::size_t>(value.index) + 1];
  }
  for (std::size_t i = 1; i < columns.first.size(); ++i) columns.first[i] += columns.first[i - 1];
  columns.elements.resize(static_cast<std::size_t>(columns.count()));
  std::vector<std::int64_t> next(columns.first.begin(), columns.first.end() - 1);
  std::int64_t at = 0;
  for (std::size_t t = 0; t < rows.rows.size(); ++t) {
    for (const SparseValue& value : rows.rows[t]) {
      const std::int64_t place = next[static_cast<std::size_t>(value.index)]++;
      columns.elements[static_cast<std::size_t>(place)] = {at++, static_cast<std::int32_t>(t)};
    }
  }
  return columns;
}

void add_encoder_gradients(Pass& p, const Dictionary& dictionary, const Tensor& x, const FeatureColumns& columns,
                           const Tensor& dp) {
  const ArenaScope scope(p.arena);
  const std::int64_t n_in = dictionary.d_in(), d_sae = dictionary.d_sae();
  const Tensor dw = p.grad(dictionary.encoder), db = p.grad(dictionary.encoder_bias);
  const Tensor sums = p.filled({1, d_sae}, 0.0f);
  p.parallel_for(d_sae, kFeaturesAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      float sum = 0;
      for (std::int64_t j = columns.first[static_cast<std::size_t>(i)];
           j < columns.first[static_cast<std::size_t>(i) + 1]; ++j) {
        const auto [at, row] = columns.elements[static_cast<std::size_t>(j)];
        const float factor = dp.data[at];
        sum += factor;
        if (dw.data != nullptr) p.kernels.add_scaled(x.row(row), n_in, factor, dw.row(i));
      }
      sums.data[i] = sum;
      if (db.data != nullptr) db.data[i] += sum;
    }
  });
  const Tensor dsubtracted = dictionary.subtracted.present() ? p.grad(dictionary.subtracted) : Tensor{};
  if (dsubtracted.data == nullptr) return;
  const Tensor product = p.tensor({1, n_in});
  multiply(p, view_of(sums.data, 1, d_sae, d_sae), transposed(dictionary.encoder.view), product.data, n_in);
  if (!p.shapes_only) p.kernels.add_scaled(product.data, n_in, -1, dsubtracted.data);
}

void add_decoder_gradient(Pass& p, const Param& weight, const std::vector<float>& factors, const SparseRows& rows,
                          const FeatureColumns& columns, const Tensor& dr) {
  const Tensor dw = p.grad(weight);
  if (dw.data == nullptr) return;
  const std::int64_t n = dr.row_size();
  p.parallel_for(dw.rows(), kFeaturesAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float factor = factors.empty() ? 1.0f : factors[static_cast<std::size_t>(i)];
      for (std::int64_t j = columns.first[static_cast<std::size_t>(i)];
           j < columns.first[static_cast<std::size_t>(i) + 1]; ++j) {
        const auto [at, row] = columns.elements[static_cast<std::size_t>(j)];
        const auto place = static_cast<std::size_t>(at - columns.first_of_row[static_cast<std::size_t>(row)]);
        const float value = rows.rows[static_cast<std::size_t>(row)][place].value * factor;
        if (value != 0) p.kernels.add_scaled(dr.row(row), n, value, dw.row(i));
      }
    }
  });
}

}  // namespace vitrine
