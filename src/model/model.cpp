#include "model/model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/block.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/loss.h"

namespace vitrine {
namespace {

constexpr SiteId top(Site site) { return {site}; }
constexpr std::int64_t kLogitElements = std::int64_t{1} << 24;  // 64 MiB of logits at a time, unless a tap wants all

/// Throws where a row of x holds an infinite or NaN value: such a value would become a token otherwise.
void check_finite(Pass& p, const SiteId& at, const Tensor& x) {
  if (p.kernels.all_finite(x.data, x.count())) return;
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    if (p.kernels.all_finite(x.row(t), x.row_size())) continue;
    throw BadInput(name_of(at),
                   "a value is infinite or NaN (row {}): the weights up to here, or a value written into "
                   "the pass, are at fault",
                   t);
  }
}

}  // namespace

Model::Model(ModelConfig config, ModelParams params, std::vector<std::shared_ptr<const void>> storage)
    : config_(std::move(config)), params_(std::move(params)), storage_(std::move(storage)) {
  validate(config_, "config");
}

KvCache Model::make_cache(std::int64_t capacity, DType dtype) const {
  if (capacity < 0 || capacity > config_.max_seq_len) {
    throw BadInput("kv_cache", "expected a capacity of at most {} tokens (the model's context), got {}",
                   config_.max_seq_len, capacity);
  }
  return KvCache(kv_layers(config_), capacity, dtype);
}

void Model::forward(Pass& p, std::span<const std::int32_t> tokens) const {
  check(p, tokens);
  const ArenaScope pass_scope(p.arena);
  const Tensor x = p.tensor({static_cast<std::int64_t>(tokens.size()), config_.d_model});
  const std::vector<std::int32_t> ids = tap_tokens(p, tokens);
  {
    const ArenaScope scope(p.arena);
    const Tensor embedded = embed_tokens(p, ids);
    check_finite(p, top(Site::embed), embedded);
    std::copy_n(embedded.data, embedded.count(), x.data);
  }
  for (std::size_t layer = 0; layer < config_.blocks.size(); ++layer) {
    p.check_interrupt();
    const ArenaScope scope(p.arena);  // what a block made is given back with it; only the stream goes on
    const BlockSite at{static_cast<int>(layer)};
    const Tensor y = block(p, at, config_.blocks[layer], params_.blocks[layer], x);
    check_finite(p, at(Site::resid_post), y);
    std::copy_n(y.data, y.count(), x.data);
  }
  head(p, x, ids);
  for (const Segment& s : p.segments) {
    if (s.cache != nullptr) s.cache->advance(s.length);
  }
}

void Model::check(const Pass& p, std::span<const std::int32_t> tokens) const {
  std::int64_t row = 0;
  for (std::size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& s = p.segments[i];
    if (s.first_row != row || s.length < 1) throw BadInput("forward", "segment {} does not begin at row {}", i, row);
    row += s.length;
    if (s.position < 0 || s.position + s.length > config_.max_seq_len) {
      throw BadInput("forward", "expected at most {} tokens in a sequence (the model's context), got {}",
                     config_.max_seq_len, s.position + s.length);
    }
    if (s.cache == nullptr) {
      if (s.position != 0) throw BadInput("forward", "segment {} begins at position {} without a cache", i, s.position);
      continue;
    }
    if (s.cache->length() != s.position || s.position + s.length > s.cache->capacity()) {
      throw BadInput("forward", "segment {} needs positions {} to {}, its cache has {} of {} tokens", i, s.position,
                     s.position + s.length, s.cache->length(), s.cache->capacity());
    }
    const auto same = [&](const Segment& other) { return other.cache == s.cache; };
    if (std::count_if(p.segments.begin(), p.segments.end(), same) > 1) {
      throw BadInput("forward", "two segments share one cache");
    }
  }
  if (row == 0 || row != static_cast<std::int64_t>(tokens.size())) {
    throw BadInput("forward", "expected segments that cover {} tokens (at least 1), got {}", tokens.size(), row);
  }
  if (p.logits.rows == LogitRequest::Rows::range &&
      (p.logits.begin < 0 || p.logits.end > row || p.logits.begin > p.logits.end)) {
    throw BadInput("forward", "expected rows within [0, {}), got [{}, {})", row, p.logits.begin, p.logits.end);
  }
}

std::vector<std::int32_t> Model::tap_tokens(Pass& p, std::span<const std::int32_t> tokens) const {
  if (!p.wants(top(Site::tokens))) return {tokens.begin(), tokens.end()};
  const Tensor ids = p.tensor({static_cast<std::int64_t>(tokens.size())});
  std::transform(tokens.begin(), tokens.end(), ids.data, [](std::int32_t id) { return static_cast<float>(id); });
  const Tensor seen = p.tap(top(Site::tokens), ids);
  std::vector<std::int32_t> result;
  for (const float id : seen.values()) {
    const bool is_id = id >= 0 && id < static_cast<float>(config_.vocab_size) && id == std::floor(id);
    if (!is_id) throw BadInput("hook_tokens", "expected ids from 0 to {}, got {}", config_.vocab_size - 1, id);
    result.push_back(static_cast<std::int32_t>(id));
  }
  return result;
}

Tensor Model::embed_tokens(Pass& p, std::span<const std::int32_t> ids) const {
  const Tensor x = p.tap(top(Site::embed), embed(p, params_.embed, config_.embedding.scale, ids));
  if (!config_.embedding.learned_positions) return x;
  return add(p, x, p.tap(top(Site::pos_embed), embed_positions(p, params_.pos_embed, x.rows())));
}

/// The requested rows of the stream x, normed and unembedded.
void Model::head(Pass& p, const Tensor& x, std::span<const std::int32_t> ids) const {
  Tensor rows = x;
  switch (p.logits.rows) {
    case LogitRequest::Rows::none:
      return;
    case LogitRequest::Rows::range:
      rows = x.row_range(p.logits.begin, p.logits.end - p.logits.begin);
      break;
    case LogitRequest::Rows::last_of_segments: {
      rows = p.tensor({static_cast<std::int64_t>(p.segments.size()), config_.d_model});
      for (std::size_t i = 0; i < p.segments.size(); ++i) {
        const Segment& s = p.segments[i];
        std::copy_n(x.row(s.first_row + s.length - 1), config_.d_model, rows.row(static_cast<std::int64_t>(i)));
      }
    }
  }
  if (rows.rows() == 0) return;
  const Tensor normed =
      p.tap(top(Site::unembed_in), norm(p, BlockSite{}(Norm::final), config_.final_norm, params_.final_norm, rows));

  const bool seen = p.wants(top(Site::unembed_out)) || p.wants(top(Site::logits)) || p.wants(top(Site::loss));
  const std::int64_t group = seen ? rows.rows() : std::max<std::int64_t>(1, kLogitElements / config_.vocab_size);
  for (std::int64_t first = 0; first < rows.rows(); first += group) {
    p.check_interrupt();
    const ArenaScope scope(p.arena);
    const Tensor some = normed.row_range(first, std::min(group, rows.rows() - first));
    const Tensor logits = unembed(p, some);
    if (p.wants(top(Site::loss)) && p.segments.size() == 1 && logits.rows() == x.rows() && x.rows() > 1) {
      p.tap(top(Site::loss), next_token_loss(p, logits.row_range(0, x.rows() - 1), ids.subspan(1)));
    }
    if (p.logits.receive) p.logits.receive(first, logits);
  }
}

/// `[n, vocab_size]` from the normed rows `[n, d_model]`.
Tensor Model::unembed(Pass& p, const Tensor& x) const {
  Tensor logits = linear(p, (config_.head.tied ? params_.embed : params_.unembed.weight).view, x);
  add_bias(p, params_.unembed.bias, logits);
  logits = p.tap(top(Site::unembed_out), logits);
  check_finite(p, top(Site::unembed_out), logits);
  logits = scale(p, config_.head.scale, logits);
  if (config_.head.softcap) logits = softcap(p, *config_.head.softcap, logits);
  return p.tap(top(Site::logits), logits);
}

}  // namespace vitrine
