#include "generate/encode.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace vitrine {
namespace {

/// Divides a vector by its length, unless it is 0.
void divide_by_length(std::vector<float>& vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  const double length = std::sqrt(squares);
  for (float& x : vector) x = length > 0 ? static_cast<float>(static_cast<double>(x) / length) : x;
}

/// One pass over several texts.
void encode_batch(const GenerateContext& context, std::span<const std::vector<std::int32_t>> texts,
                  std::span<const std::size_t> batch, const EncodeOptions& options, Arena& arena,
                  const ReceiveVector& receive) {
  std::vector<std::int32_t> ids;
  std::vector<Segment> segments;
  for (const std::size_t i : batch) {
    segments.push_back({static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(texts[i].size())});
    ids.insert(ids.end(), texts[i].begin(), texts[i].end());
  }
  const bool has_encoder = context.model->config().encoder.has_value();
  Pass pass = context.make_pass(arena);
  std::vector<Segment>& own = has_encoder ? pass.sources : pass.segments;
  own = std::move(segments);
  const auto check = [&](std::size_t i) {
    if (own[i].failure) throw error_of({own[i].failure->where, own[i].failure->row - own[i].first_row});
  };
  if (options.pooling == Pooling::pooler) {
    pass.receive_pooled = [&](const Tensor& vectors) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        check(i);
        const float* const row = vectors.row(static_cast<std::int64_t>(i));
        std::vector<float> vector(row, row + vectors.row_size());
        if (options.normalize) divide_by_length(vector);
        receive(batch[i], vector);
      }
    };
  } else {
    pass.receive_hidden = [&](const Tensor& rows) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        check(i);
        RowPooler pooler(options.pooling, options.normalize);
        pooler.add(rows.row_range(own[i].first_row, own[i].length));
        receive(batch[i], pooler.vector());
      }
    };
  }
  context.forward(pass, has_encoder ? Tokens({}, {}, ids) : Tokens(ids));
}

}  // namespace

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
  const ModelConfig& config = context.model->config();
  const StackConfig& stack = config.encoder ? *config.encoder : config;
  if (options.pooling == Pooling::pooler && !config.pooler) throw Unsupported("encode", "the model has no pooler");
  for (const auto& ids : texts) {
    const auto n = static_cast<std::int64_t>(ids.size());
    if (n == 0) throw BadInput("encode", "expected at least one token, got none");
    if (n > stack.max_seq_len) {
      throw BadInput("encode", "the text has {} tokens, the model's context is {}", n, stack.max_seq_len);
    }
    context.model->refuse_placeholders(ids);
    GenerateContext::check_ids(ids, stack.vocab_size);
  }
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return texts[a].size() > texts[b].size(); });
  Arena arena;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    std::int64_t rows = 0;
    while (end < order.size() &&
           (end == first || rows + static_cast<std::int64_t>(texts[order[end]].size()) <= options.max_rows)) {
      rows += static_cast<std::int64_t>(texts[order[end++]].size());
    }
    encode_batch(context, texts, std::span(order).subspan(first, end - first), options, arena, receive);
    first = end;
  }
}

}  // namespace vitrine
