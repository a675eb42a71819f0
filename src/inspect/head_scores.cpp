#include "inspect/head_scores.h"

#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "inspect/recorder.h"
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

namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;  // of a value of a recurrence

/// A recurrence of a block.
struct Recurrence {
  RecurrentHeads heads;
  std::string_view prefix;
  BlockSite at;

  std::int64_t n_maps() const {
    return heads.shape.decay == StateDecay::element ? heads.shape.lanes : heads.shape.heads;
  }
  std::int64_t size() const { return heads.shape.heads * heads.shape.rows * heads.shape.lanes; }
};

std::vector<Recurrence> recurrences_of(const Model& model) {
  std::vector<Recurrence> all;
  for (std::size_t layer = 0; layer < model.config().blocks.size(); ++layer) {
    const std::vector<Sublayer>& sublayers = model.config().blocks[layer].sublayers;
    for (std::size_t i = 0; i < sublayers.size(); ++i) {
      const std::optional<RecurrentHeads> heads =
          visit_sublayer(sublayers[i], model.params().blocks[layer].sublayers[i],
                         [](const auto& kind, const auto& params) { return recurrent_heads(kind, params); });
      const BlockSite at{static_cast<int>(layer), model.config().stack()};
      if (heads) all.push_back({*heads, names_of(sublayers[i]).prefix, at});
    }
  }
  return all;
}

/// For each head, the mean over tokens and over the elements that decay.
std::vector<double> mean_log_decays(Pass& p, const RecurrentHeads& heads, const Tensor& decays) {
  const ArenaScope scope(p.arena);
  const std::int64_t n = decays.row_size(), of_head = n / heads.shape.heads;
  std::vector<double> means(static_cast<std::size_t>(heads.shape.heads));
  const Tensor all = heads.rates ? rates(p, *heads.rates) : Tensor();
  const std::int64_t n_rates = heads.rates ? all.count() / n : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0, rate = heads.rates ? 0 : 1;
    for (std::int64_t t = 0; t < decays.rows(); ++t) sum += static_cast<double>(decays.row(t)[i]);
    for (std::int64_t j = 0; j < n_rates; ++j) {
      rate += static_cast<double>(all.data[i * n_rates + j]) / static_cast<double>(n_rates);
    }
    means[static_cast<std::size_t>(i / of_head)] += sum * rate / static_cast<double>(decays.rows() * of_head);
  }
  return means;
}

/// `[H, T, T]`: the shares of |M|, `[T, n, T]` with n maps of each head.
Tensor weights_of(Pass& p, const Tensor& m, std::int64_t n_heads) {
  const std::int64_t n = m.rows(), maps = m.shape[1] / n_heads;
  const Tensor weights = p.filled({n_heads, n, n}, 0.0f);
  p.parallel_for(n_heads * n, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<double> row(static_cast<std::size_t>(n));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / n, t = i % n;
      std::fill(row.begin(), row.end(), 0.0);
      double sum = 0;
      for (std::int64_t j = 0; j < maps; ++j) {
        const float* const own = m.row(t) + (head * maps + j) * n;
        for (std::int64_t s = 0; s <= t; ++s)
          row[static_cast<std::size_t>(s)] += std::fabs(static_cast<double>(own[s]));
      }
      for (const double x : row) sum += x;
      float* const to = weights.row(head) + t * n;
      for (std::int64_t s = 0; s <= t && sum > 0; ++s)
        to[s] = static_cast<float>(row[static_cast<std::size_t>(s)] / sum);
    }
  });
  return weights;
}

/// ‖S[t]‖ of a head.
std::vector<double> sizes_of(const Tensor& states, std::int64_t n_heads, std::int64_t head) {
  const std::int64_t n = states.row_size() / n_heads;
  std::vector<double> sizes;
  for (std::int64_t t = 0; t < states.rows(); ++t) {
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(states.row(t)[head * n + i]);
      squares += x * x;
    }
    sizes.push_back(std::sqrt(squares));
  }
  return sizes;
}

/// The scores of a recurrence from its sites, whose values come one after another: decays, weights, states.
class RecurrenceReader {
 public:
  RecurrenceReader(const Recurrence& of, const ReceiveWeights& receive) : of_(of), receive_(receive) {}

  const Recurrence& recurrence() const { return of_; }
  /// The scores, once they are complete.
  std::vector<HeadScores> see(Pass& p, const SiteId& id, const Tensor& value, std::span<const std::int32_t> ids) {
    const RecurrentHeads& heads = of_.heads;
    if (id.site == heads.decays) decays_ = mean_log_decays(p, heads, value);
    if (id.site == heads.effective_attention) score_weights(p, value, ids);
    if (id.site != heads.carry) return {};
    for (HeadScores& scores : scores_) {
      scores.sizes = sizes_of(value, heads.shape.heads, scores.head);
      const double decay = decays_[static_cast<std::size_t>(scores.head)];
      if (decay < 0) scores.half_life = math::log(2) / -decay;
    }
    return std::move(scores_);
  }

 private:
  void score_weights(Pass& p, const Tensor& m, std::span<const std::int32_t> ids) {
    const ArenaScope scope(p.arena);
    const StateShape& shape = of_.heads.shape;
    const Tensor weights = weights_of(p, m, shape.heads);
    if (receive_) receive_(of_.at.layer, weights);
    const auto equals = earlier_equals(ids);
    scores_.resize(static_cast<std::size_t>(shape.heads));
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      HeadScores& scores = scores_[static_cast<std::size_t>(head)];
      scores.layer = of_.at.layer;
      scores.sublayer = of_.prefix;
      scores.head = head;
      scores.kv_head = shape.group_of(head);
      score({weights.row(head), {m.rows(), m.rows()}}, equals, false, scores);
    }
  }

  Recurrence of_;
  const ReceiveWeights& receive_;
  std::vector<double> decays_;
  std::vector<HeadScores> scores_;
};

void check_capacity(const Recurrence& of, std::int64_t n_tokens) {
  const std::int64_t bytes = 4 * n_tokens * std::max(of.size(), of.n_maps() * n_tokens);
  if (bytes <= kMaxBytes) return;
  throw OutOfCapacity("heads", "expected a text whose states take at most {} bytes in a layer, got {} for {} tokens",
                      kMaxBytes, bytes, n_tokens);
}

}  // namespace

bool has_recurrence(const Model& model) { return !recurrences_of(model).empty(); }

std::vector<HeadScores> head_scores(const GenerateContext& context, const Tokens& tokens,
                                    std::span<const SiteWrite> writes, const ReceiveWeights& receive) {
  const ModelConfig& config = context.model->config();
  std::vector<std::string> sites;
  std::vector<RecurrenceReader> readers;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockSite at{static_cast<int>(i), config.stack()};
    if (heads_of(config, i) != nullptr) sites.push_back(name_of(at(AttentionSite::pattern)));
  }
  for (const Recurrence& of : recurrences_of(*context.model)) {
    check_capacity(of, static_cast<std::int64_t>(tokens.ids.size()));
    for (const Site site : {of.heads.decays, of.heads.effective_attention, of.heads.carry}) {
      sites.push_back(name_of(of.at(site)));
    }
    readers.emplace_back(of, receive);
  }
  if (sites.empty()) throw Unsupported("heads", "the model has no attention heads and no recurrences");
  std::vector<HeadScores> all;
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  Recorder recorder(sites, {writes.begin(), writes.end()}, site_layers(config),
                    [&](const SiteId& id, const Tensor& value) {
                      std::vector<HeadScores> own;
                      for (RecurrenceReader& reader : readers) {
                        if (reader.recurrence().at.layer == id.layer && own.empty()) {
                          own = reader.see(pass, id, value, tokens.ids);
                        }
                      }
                      if (id.site == AttentionSite::pattern) {
                        own = scores_of(value, tokens.ids, id.layer, config, *context.pool);
                      }
                      all.insert(all.end(), own.begin(), own.end());
                    });
  pass.taps = &recorder;
  context.model->forward(pass, tokens);
  return all;
}

}  // namespace vitrine
