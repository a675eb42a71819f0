#include "model/model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/finite.h"
#include "model/stack.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/loss.h"
#include "ops/route.h"

namespace vitrine {
namespace {

constexpr SiteId top(Site site) { return {site}; }
constexpr std::int64_t kLogitElements = std::int64_t{1} << 24;  // 64 MiB of logits at a time, unless they are tapped

/// The row of the pass that the i-th row of logits belongs to.
std::int64_t row_of_logits(const Pass& p, std::int64_t i) {
  if (p.training.loss != nullptr) return i;
  if (p.logits.rows == LogitRequest::Rows::range) return p.logits.begin + i;
  if (p.logits.rows == LogitRequest::Rows::chosen) return p.logits.chosen[static_cast<std::size_t>(i)];
  const Segment& s = p.segments[static_cast<std::size_t>(i)];
  return s.first_row + s.length - 1;
}

/// Passes the logits of the requested rows from `first` on to the receiver, except those of failed segments.
void deliver(Pass& p, std::int64_t first, const Tensor& logits) {
  if (!p.logits.receive) return;
  std::int64_t begin = 0;
  for (std::int64_t row = 0; row <= logits.rows(); ++row) {
    if (row < logits.rows() && !segment_of(p, row_of_logits(p, first + row)).failure) continue;
    if (row > begin) p.logits.receive(first + begin, logits.row_range(begin, row - begin));
    begin = row + 1;
  }
}

/// The first site in the blocks that the pass does not need: taps want no value from there on, and the keys and values
/// of all layers have been appended to the caches. nullopt if the pass needs all blocks.
std::optional<SiteId> end_of(const Pass& p, int n_layers) {
  const bool has_rows = p.logits.rows == LogitRequest::Rows::chosen ? !p.logits.chosen.empty()
                                                                    : p.logits.rows != LogitRequest::Rows::none;
  const bool has_logits = has_rows && p.logits.receive;
  if (p.training.loss != nullptr || p.is_taped() || has_logits) return {};
  SiteId end{Site::resid_pre, 0};
  if (std::any_of(p.segments.begin(), p.segments.end(), [](const Segment& s) { return s.cache != nullptr; })) {
    end = {Site::scores_raw, n_layers - 1};
  }
  if (p.taps == nullptr) return end;
  const std::optional<SiteId> last = p.taps->last_wanted();
  if (!last || precedes({Site::resid_post, n_layers}, *last)) return {};
  SiteId after{static_cast<Site>(static_cast<int>(last->site) + 1), last->layer};
  if (!info(after.site).in_block) after = {Site::resid_pre, last->layer + 1};
  return precedes(end, after) && last->layer >= 0 ? after : end;
}

}  // namespace

Model::Model(ModelConfig config, ModelParams params, std::vector<std::shared_ptr<const void>> storage)
    : config_(std::move(config)), params_(std::move(params)), storage_(std::move(storage)) {
  validate(config_, "config");
}

KvCache Model::make_cache(std::int64_t capacity, DType dtype, KvMemory& memory) const {
  if (capacity < 0 || capacity > config_.max_seq_len) {
    throw BadInput("kv_cache", "expected a capacity of at most {} tokens (the model's context), got {}",
                   config_.max_seq_len, capacity);
  }
  if (is_bidirectional(config_)) {
    throw Unsupported("kv_cache", "the model attends to later tokens, so it cannot continue a text");
  }
  return KvCache(kv_layers(config_), capacity, dtype, memory);
}

void Model::forward(Pass& p, const Tokens& tokens) const {
  check(p, tokens);
  const PassScope pass_scope(p);
  std::vector<std::int32_t> replaced;
  const std::span<const std::int32_t> ids = tap_tokens(p, tokens.ids, replaced);
  p.end = end_of(p, static_cast<int>(config_.blocks.size()));
  const Tensor x = run_stack(p, Stack::only, config_.blocks, params_.blocks, stream(p, {ids, tokens.types}));
  if (!p.end) head(p, x, ids);
  for (const Segment& s : p.segments) {
    if (s.cache != nullptr && !s.failure && !p.shapes_only) s.cache->advance(s.length);
  }
}

void Model::learn(Pass& p, const Tokens& tokens) const {
  if (!p.is_taped() || p.training.loss == nullptr || p.training.result == nullptr) {
    throw InternalError("learn", "expected a tape and a loss");
  }
  const ArenaScope scope(p.arena);
  forward(p, tokens);
  p.training.tape->unwind();
}

/// The stream before the first block. Without a tape the blocks overwrite it.
Tensor Model::stream(Pass& p, const Tokens& tokens) const {
  if (p.is_taped()) {
    const Tensor embedded = embed_tokens(p, tokens);
    check_finite(p, top(Site::embed), embedded);
    return embedded;
  }
  const Tensor x = p.tensor({static_cast<std::int64_t>(tokens.ids.size()), config_.d_model});
  const ArenaScope scope(p.arena);
  const Tensor embedded = embed_tokens(p, tokens);
  check_finite(p, top(Site::embed), embedded);
  p.copy(embedded.data, embedded.count(), x.data);
  return x;
}

void Model::check(const Pass& p, const Tokens& tokens) const {
  std::int64_t row = 0;
  for (std::size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& s = p.segments[i];
    if (s.first_row != row || s.length < 1)
      throw BadInput("forward", "expected segment {} to begin at row {} and to have tokens", i, row);
    row += s.length;
    if (s.position < 0 || s.position + s.length > config_.max_seq_len) {
      throw BadInput("forward", "expected at most {} tokens in a sequence (the model's context), got {}",
                     config_.max_seq_len, s.position + s.length);
    }
    if (s.cache != nullptr) p.refuse_tape("a cache");
    if (s.cache == nullptr) {
      if (s.position != 0) throw BadInput("forward", "segment {} begins at position {} without a cache", i, s.position);
      continue;
    }
    if (s.cache->length() != s.position || s.position + s.length > s.cache->capacity()) {
      throw BadInput("forward", "segment {} has positions {} to {}, but its cache has {} of {} tokens", i, s.position,
                     s.position + s.length, s.cache->length(), s.cache->capacity());
    }
    const auto same = [&](const Segment& other) { return other.cache == s.cache; };
    if (!p.shapes_only && std::count_if(p.segments.begin(), p.segments.end(), same) > 1) {
      throw BadInput("forward", "two segments share one cache");
    }
  }
  if (row == 0 || row != static_cast<std::int64_t>(tokens.ids.size())) {
    throw BadInput("forward", "expected segments that cover {} tokens (at least 1), got {}", tokens.ids.size(), row);
  }
  if (!tokens.types.empty() && (config_.embedding.n_types == 0 || tokens.types.size() != tokens.ids.size())) {
    throw BadInput("forward", "expected {} types, got {}", config_.embedding.n_types == 0 ? 0 : tokens.ids.size(),
                   tokens.types.size());
  }
  if (p.training.loss != nullptr && p.training.result == nullptr) {
    throw InternalError("forward", "expected a result for the losses");
  }
  if (p.training.loss != nullptr) check(*p.training.loss, row, p.segments.size());
  for (std::size_t i = 0; i < p.logits.chosen.size(); ++i) {
    if (p.logits.chosen[i] < (i > 0 ? p.logits.chosen[i - 1] + 1 : 0) || p.logits.chosen[i] >= row) {
      throw BadInput("forward", "expected ascending rows within [0, {}), got {}", row, p.logits.chosen[i]);
    }
  }
  if (p.logits.rows == LogitRequest::Rows::range &&
      (p.logits.begin < 0 || p.logits.end > row || p.logits.begin > p.logits.end)) {
    throw BadInput("forward", "expected rows within [0, {}), got [{}, {})", row, p.logits.begin, p.logits.end);
  }
}

void Model::check(const LossRequest& loss, std::int64_t rows, std::size_t n_segments) const {
  const std::size_t n = loss.targets.size();
  const bool fits = n == static_cast<std::size_t>(rows) || (n + 1 == static_cast<std::size_t>(rows) && n_segments == 1);
  if (!fits || n == 0) throw BadInput("loss", "expected {} targets, got {}", rows, n);
  if (!loss.weights.empty() && loss.weights.size() != n) {
    throw BadInput("loss", "expected {} weights or none, got {}", n, loss.weights.size());
  }
  for (const std::int32_t id : loss.targets) {
    if (id < 0 || id >= config_.vocab_size) {
      throw BadInput("loss", "expected ids from 0 to {}, got {}", config_.vocab_size - 1, id);
    }
  }
}

/// The ids to continue with: `tokens`, or, if they are tapped, the returned ids, which are stored in `replaced`.
std::span<const std::int32_t> Model::tap_tokens(Pass& p, std::span<const std::int32_t> tokens,
                                                std::vector<std::int32_t>& replaced) const {
  if (!p.wants(top(Site::tokens))) return tokens;
  const Tensor ids = p.tensor({static_cast<std::int64_t>(tokens.size())});
  p.for_rows(ids.count(), 1,
             [&](std::int64_t i) { ids.data[i] = static_cast<float>(tokens[static_cast<std::size_t>(i)]); });
  const Tensor tapped = p.tap(top(Site::tokens), ids);
  if (p.shapes_only) return tokens;
  for (const float id : tapped.values()) {
    const bool is_id = id >= 0 && id < static_cast<float>(config_.vocab_size) && id == std::floor(id);
    if (!is_id) throw BadInput("hook_tokens", "expected ids from 0 to {}, got {}", config_.vocab_size - 1, id);
    replaced.push_back(static_cast<std::int32_t>(id));
  }
  return replaced;
}

Tensor Model::embed_tokens(Pass& p, const Tokens& tokens) const {
  const EmbeddingConfig& c = config_.embedding;
  Tensor x = p.tap(top(Site::embed), embed(p, params_.embed, c.scale, tokens.ids));
  if (c.n_types > 0) {
    const bool needs_zeros = tokens.types.empty() && !p.shapes_only;  // a dry run does not read ids
    const std::vector<std::int32_t> zeros(needs_zeros ? tokens.ids.size() : 0);
    const std::span<const std::int32_t> otherwise = needs_zeros ? zeros : tokens.ids;
    const std::span<const std::int32_t> types = tokens.types.empty() ? otherwise : tokens.types;
    x = add(p, x, p.tap(top(Site::type_embed), embed(p, params_.type_embed, 1.0f, types, "type_embed")));
  }
  if (c.learned_positions) {
    x = add(p, x, p.tap(top(Site::pos_embed), embed_positions(p, params_.pos_embed, c.first_position, x.rows())));
  }
  x = norm(p, BlockSite{}(Norm::embed), c.norm, params_.embed_norm, x);
  return dropout(p, top(Site::embed), x);
}

/// The rows of the stream x whose logits are requested; all rows if there is a loss.
Tensor Model::requested_rows(Pass& p, const Tensor& x) const {
  if (p.training.loss != nullptr) return x;
  switch (p.logits.rows) {
    case LogitRequest::Rows::none:
      return {};
    case LogitRequest::Rows::range:
      return row_range(p, x, p.logits.begin, p.logits.end - p.logits.begin);
    case LogitRequest::Rows::last_of_segments: {
      std::vector<std::int64_t> last;
      for (const Segment& s : p.segments) last.push_back(s.first_row + s.length - 1);
      return take_rows(p, x, last);
    }
    case LogitRequest::Rows::chosen:
      return take_rows(p, x, p.logits.chosen);
  }
  throw InternalError("forward", "unknown LogitRequest::Rows");
}

/// Norms and unembeds the requested rows of the stream x, in groups. In training the backward of each group, down to
/// the normed rows, runs before the next group, so that only the logits of one group are in memory.
void Model::head(Pass& p, const Tensor& x, std::span<const std::int32_t> ids) const {
  const Tensor rows = requested_rows(p, x);
  if (rows.data == nullptr || rows.rows() == 0) return;
  const Tensor normed =
      p.tap(top(Site::unembed_in),
            transform(p, norm(p, BlockSite{}(Norm::final), config_.final_norm, params_.final_norm, rows)));

  const bool tapped = p.wants(top(Site::unembed_out)) || p.wants(top(Site::logits)) || p.wants(top(Site::loss));
  // In a dry run the ledger has one entry for all rows.
  const std::int64_t group = tapped || (p.shapes_only && p.ledger != nullptr)
                                 ? rows.rows()
                                 : std::max<std::int64_t>(1, kLogitElements / config_.vocab_size);
  for (std::int64_t first = 0; first < rows.rows(); first += group) {
    const ArenaScope scope(p.arena);
    const std::size_t mark = p.is_taped() ? p.training.tape->mark() : 0;
    const Tensor logits = unembed(p, row_range(p, normed, first, std::min(group, rows.rows() - first)), first);
    if (p.training.loss != nullptr) {
      learn_from(p, logits, first);
    } else if (p.wants(top(Site::loss)) && !is_bidirectional(config_) && p.segments.size() == 1 &&
               logits.rows() == x.rows() && x.rows() > 1) {
      p.tap(top(Site::loss), next_token_loss(p, row_range(p, logits, 0, x.rows() - 1), ids.subspan(1)));
    }
    deliver(p, first, logits);
    if (p.is_taped()) p.training.tape->unwind(mark);
  }
}

/// Adds the losses of the rows from `first` on to p.training.result, and sets the gradients of the losses.
void Model::learn_from(Pass& p, const Tensor& all_logits, std::int64_t first) const {
  const LossRequest& request = *p.training.loss;
  LossResult& found = *p.training.result;
  const auto begin = static_cast<std::size_t>(first), n_rows = static_cast<std::size_t>(all_logits.rows());
  const std::size_t n = std::min(n_rows, request.targets.size() - begin);
  if (n == 0) return;
  const Tensor logits = n == n_rows ? all_logits : row_range(p, all_logits, 0, static_cast<std::int64_t>(n));
  const auto weight = [&](std::size_t i) { return request.weights.empty() ? 1.0f : request.weights[begin + i]; };
  const Tensor losses =
      p.tap(top(Site::loss), next_token_loss(p, logits, request.targets.subspan(begin, n), request.label_smoothing));
  if (p.is_taped()) p.grad(losses);  // the backward starts here
  for (std::size_t i = 0; i < n && !p.shapes_only; ++i) {
    if (weight(i) != 0.0f) found.cross_entropy += static_cast<double>(weight(i)) * static_cast<double>(losses.data[i]);
    if (p.is_taped()) p.grad(losses).data[i] = request.scale * weight(i);
  }
  if (request.z_loss == 0.0f) return;
  const Tensor log_z = log_partition(p, logits);
  if (p.is_taped()) p.grad(log_z);
  for (std::size_t i = 0; i < n && !p.shapes_only; ++i) {
    const float z = log_z.data[i];
    found.z_squares += static_cast<double>(weight(i)) * static_cast<double>(z) * static_cast<double>(z);
    if (p.is_taped()) p.grad(log_z).data[i] = 2.0f * request.z_loss * z * request.scale * weight(i);
  }
}

/// norm(act(x · dense + bias)), if the head has a transform.
Tensor Model::transform(Pass& p, const Tensor& x) const {
  if (!config_.head.transform) return x;
  const Tensor pre = p.tap(top(Site::head_pre), linear(p, params_.head_dense, x));
  const Tensor post = p.tap(top(Site::head_post), activate(p, config_.head.transform->activation, pre));
  return norm(p, BlockSite{}(Norm::head), config_.head.transform->norm, params_.head_norm, post);
}

/// `[n, vocab_size]` from normed rows `[n, d_model]`, the requested rows from `first` on.
Tensor Model::unembed(Pass& p, const Tensor& x, std::int64_t first) const {
  Tensor logits = linear(p, params_.unembed, x, config_.head.tied ? &params_.embed : nullptr);
  if (p.ledger != nullptr) p.ledger->name("unembed");
  logits = p.tap(top(Site::unembed_out), logits);
  check_finite(p, top(Site::unembed_out), logits, [&](std::int64_t t) { return row_of_logits(p, first + t); });
  logits = scale(p, config_.head.scale, logits);
  if (config_.head.softcap) logits = softcap(p, *config_.head.softcap, logits);
  return p.tap(top(Site::logits), logits);
}

}  // namespace vitrine
