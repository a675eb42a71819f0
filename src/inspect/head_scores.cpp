#include "inspect/head_scores.h"

#include "base/error.h"
#include "base/math.h"
#include "inspect/text_pass.h"
#include "ops/attention_sites.h"

namespace vitrine {
namespace {

/// For each token, the earlier positions of the same id, ascending.
std::vector<std::vector<std::int64_t>> earlier_equals(std::span<const std::int32_t> ids) {
  std::vector<std::vector<std::int64_t>> all(ids.size());
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t s = 0; s < t; ++s) {
      if (ids[s] == ids[t]) all[t].push_back(static_cast<std::int64_t>(s));
    }
  }
  return all;
}

class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++n_;
  }
  std::optional<double> value() const { return n_ > 0 ? std::optional(sum_ / static_cast<double>(n_)) : std::nullopt; }

 private:
  double sum_ = 0;
  std::int64_t n_ = 0;
};

/// `pattern` `[T, T]` is that of one head.
void score(const Tensor& pattern, const std::vector<std::vector<std::int64_t>>& equals, bool has_sink,
           HeadScores& scores) {
  Mean previous, first, current, duplicate, induction, distance, entropy, nothing;
  const std::int64_t n = pattern.rows();
  for (std::int64_t t = 0; t < n; ++t) {
    const float* const row = pattern.row(t);
    const auto p = [row](std::int64_t s) { return static_cast<double>(row[s]); };
    double weighted = 0, nats = 0, on_equal = 0, after_equal = 0, rest = 1;
    for (std::int64_t s = 0; s < n; ++s) {
      rest -= p(s);
      weighted += p(s) * static_cast<double>(t - s);
      if (p(s) > 0) nats -= p(s) * math::log(p(s));
    }
    for (const std::int64_t s : equals[static_cast<std::size_t>(t)]) {
      on_equal += p(s);
      after_equal += p(s + 1);
    }
    if (t > 0) previous.add(p(t - 1));
    if (t > 0) first.add(p(0));
    current.add(p(t));
    distance.add(weighted);
    entropy.add(nats);
    nothing.add(rest);
    if (equals[static_cast<std::size_t>(t)].empty()) continue;
    duplicate.add(on_equal);
    induction.add(after_equal);
  }
  scores.previous = previous.value();
  scores.first = first.value();
  scores.current = *current.value();
  scores.duplicate = duplicate.value();
  scores.induction = induction.value();
  scores.distance = *distance.value();
  scores.entropy = *entropy.value();
  if (has_sink) scores.nothing = nothing.value();
}

}  // namespace

std::vector<HeadScores> scores_of(const Tensor& pattern, std::span<const std::int32_t> ids, int layer,
                                  const StackConfig& config, ThreadPool& pool) {
  const auto equals = earlier_equals(ids);
  const AttendConfig& heads = *heads_of(config, static_cast<std::size_t>(layer));
  const AttentionConfig* const attention = attention_of(config, static_cast<std::size_t>(layer));
  std::vector<HeadScores> all(static_cast<std::size_t>(heads.n_heads));
  pool.parallel_for(heads.n_heads, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t head = begin; head < end; ++head) {
      HeadScores& scores = all[static_cast<std::size_t>(head)];
      scores.layer = layer;
      scores.head = head;
      scores.kv_head = head / (heads.n_heads / heads.n_kv_heads);
      if (attention != nullptr) scores.window = attention->window;
      const bool has_sink = attention != nullptr && attention->sink;
      score({pattern.row(head), {pattern.shape[1], pattern.shape[2]}}, equals, has_sink, scores);
    }
  });
  return all;
}

std::vector<HeadScores> head_scores(const GenerateContext& context, const Tokens& tokens) {
  const ModelConfig& config = context.model->config();
  std::vector<SiteId> sites;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    if (heads_of(config, i) != nullptr) {
      sites.push_back(BlockSite{static_cast<int>(i), config.stack()}(AttentionSite::pattern));
    }
  }
  if (sites.empty()) throw Unsupported("heads", "the model has no attention heads");
  std::vector<HeadScores> all;
  SiteReader reader(sites, [&](Pass&, const SiteId& id, const Tensor& pattern) {
    const std::vector<HeadScores> own = scores_of(pattern, tokens.ids, id.layer, config, *context.pool);
    all.insert(all.end(), own.begin(), own.end());
  });
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &reader;
  context.model->forward(pass, tokens);
  return all;
}

}  // namespace vitrine
