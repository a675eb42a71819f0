#include "generate/encode.h"

#include <algorithm>

#include "base/divide_by_length.h"
#include "base/error.h"
#include "generate/read_texts.h"

namespace vitrine {

void RowPooler::add(const Tensor& rows) {
  const std::int64_t d = rows.row_size();
  if (n_ == 0) {
    row_.assign(rows.row(0), rows.row(0) + d);
    sums_.resize(static_cast<std::size_t>(d));
  }
  n_ += rows.rows();
  if (pooling_ == Pooling::last) row_.assign(rows.row(rows.rows() - 1), rows.row(rows.rows() - 1) + d);
  if (pooling_ == Pooling::last || pooling_ == Pooling::cls) return;
  for (std::int64_t t = 0; t < rows.rows(); ++t) {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      sums_[i] += static_cast<double>(rows.row(t)[i]);
      row_[i] = std::max(row_[i], rows.row(t)[i]);
    }
  }
}

std::vector<float> RowPooler::vector() const {
  std::vector<float> vector = row_;
  for (std::size_t i = 0; i < vector.size() && pooling_ == Pooling::mean; ++i) {
    vector[i] = static_cast<float>(sums_[i] / static_cast<double>(n_));
  }
  if (normalizes_) divide_by_length(vector);
  return vector;
}

Pooling pooling_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"mean", "cls", "max", "last", "pooler"};
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) throw BadInput("encode", "expected mean, cls, max, last or pooler, got \"{}\"", name);
  return static_cast<Pooling>(at - std::begin(kNames));
}

void encode(const GenerateContext& context, std::span<const std::vector<std::int32_t>> texts,
            const EncodeOptions& options, const ReceiveVector& receive) {
  const bool is_pooled = options.pooling == Pooling::pooler;
  if (is_pooled && !context.model->config().pooler) throw Unsupported("encode", "the model has no pooler");
  const auto prepare = [&](Pass& pass, const std::vector<Segment>& segments, std::span<const std::size_t> numbers) {
    const auto pooled = [&, numbers](const Tensor& vectors) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        check_text(segments[i]);
        const float* const row = vectors.row(static_cast<std::int64_t>(i));
        std::vector<float> vector(row, row + vectors.row_size());
        if (options.normalize) divide_by_length(vector);
        receive(numbers[i], vector);
      }
    };
    const auto hidden = [&, numbers](const Tensor& rows) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        check_text(segments[i]);
        RowPooler pooler(options.pooling, options.normalize);
        pooler.add(rows.row_range(segments[i].first_row, segments[i].length));
        receive(numbers[i], pooler.vector());
      }
    };
    if (is_pooled) pass.receive_pooled = pooled;
    if (!is_pooled) pass.receive_hidden = hidden;
  };
  read_texts(context, {texts}, options.max_rows, prepare);
}

}  // namespace vitrine
