#include "inspect/dictionary_quality.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "generate/evaluate.h"
#include "generate/sampler.h"
#include "inspect/quality_sums.h"
#include "inspect/window_run.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

/// Writes zeros to a site, or to one head of it.
class ZeroSite : public Taps {
 public:
  explicit ZeroSite(const Dictionary& dictionary) : site_(dictionary.output), head_(dictionary.head) {}

  bool wants(const SiteId& id) const override { return id == site_; }
  Tensor visit(Pass& pass, const SiteId&, const Tensor& value) override {
    if (!head_) return pass.filled(value.shape, 0.0f);
    const Tensor result = pass.tensor(value.shape);
    pass.copy(value.data, value.count(), result.data);
    const std::int64_t n = value.shape[2];
    for (std::int64_t t = 0; t < value.rows(); ++t) std::fill_n(result.row(t) + *head_ * n, n, 0.0f);
    return result;
  }

 private:
  SiteId site_;
  std::optional<std::int64_t> head_;
};

TokenLosses losses_of(std::span<const float> own, std::span<const float> with, std::span<const float> ablated,
                      std::optional<std::int32_t> target) {
  const double normalizer = log_sum_exp(own), normalizer_with = log_sum_exp(with);
  const double normalizer_ablated = log_sum_exp(ablated);
  TokenLosses out;
  out.kl_with = kl_divergence(own, normalizer, with, normalizer_with);
  out.kl_ablated = kl_divergence(own, normalizer, ablated, normalizer_ablated);
  if (!target) return out;
  const auto i = static_cast<std::size_t>(*target);
  out.without = normalizer - static_cast<double>(own[i]);
  out.with = normalizer_with - static_cast<double>(with[i]);
  out.ablated = normalizer_ablated - static_cast<double>(ablated[i]);
  return out;
}

/// Whether the token of a row counts: it has not been counted in an earlier window, and is not skipped.
bool counts(const AppliedDictionary& applied, std::span<const std::int32_t> ids, std::int64_t first_row,
            std::int64_t row) {
  const bool is_new = row > first_row || first_row == 0;
  return is_new && (applied.skipped == nullptr ||
                    !std::ranges::binary_search(applied.skipped->ids, ids[static_cast<std::size_t>(row)]));
}

}  // namespace

struct DictionaryEvaluation::Sums {
  ReconstructionSums reconstruction{};
  std::int64_t n_features = 0;
  double magnitudes = 0;
  std::vector<std::int64_t> n_active{};
  TokenLosses losses{};
  std::int64_t n_losses = 0, n_divergences = 0;
};

/// Reads what all dictionaries make of a window.
class DictionaryEvaluation::Reader : public Taps {
 public:
  Reader(DictionaryEvaluation& own, std::span<const std::int32_t> ids, std::int64_t first_row)
      : own_(own), ids_(ids), first_row_(first_row) {}

  bool wants(const SiteId& id) const override {
    if (id.dictionary != nullptr) return id.value == DictionarySite::error && find(id) < own_.reading_.size();
    return std::ranges::any_of(own_.reading_, [&](const auto& applied) { return applied.dictionary->output == id; });
  }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    if (id.dictionary == nullptr) {
      site_.assign(value.data, value.data + value.count());
      return value;
    }
    const std::size_t number = find(id);
    const AppliedDictionary& applied = own_.reading_[number];
    const std::int64_t n = value.row_size(), width = std::ssize(site_) / value.rows();
    const float* const y = site_.data() + applied.dictionary->head.value_or(0) * n;
    for (std::int64_t t = 0; t < value.rows(); ++t) {
      if (!counts(applied, ids_, first_row_, pass.segments.front().position + t)) continue;
      own_.sums_[number].reconstruction.add(y + t * width, value.row(t), n);
    }
    return value;
  }
  bool wants_sparse(const SiteId& id) const override { return find(id) < own_.reading_.size(); }
  void visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) override {
    const std::size_t number = find(id);
    Sums& to = own_.sums_[number];
    for (std::int64_t t = 0; t < std::ssize(rows.rows); ++t) {
      if (!counts(own_.reading_[number], ids_, first_row_, pass.segments.front().position + t)) continue;
      to.n_features += std::ssize(rows.row(t));
      for (const auto& [index, value] : rows.row(t)) {
        to.magnitudes += std::abs(static_cast<double>(value));
        ++to.n_active[static_cast<std::size_t>(index)];
      }
    }
  }

 private:
  std::size_t find(const SiteId& id) const {
    const auto is_own = [&](const AppliedDictionary& applied) { return &applied.dictionary->name == id.dictionary; };
    return static_cast<std::size_t>(std::ranges::find_if(own_.reading_, is_own) - own_.reading_.begin());
  }

  DictionaryEvaluation& own_;
  std::span<const std::int32_t> ids_;
  std::int64_t first_row_;
  std::vector<float> site_;  // the value that the next dictionaries reconstruct
};

DictionaryEvaluation::DictionaryEvaluation(const GenerateContext& context)
    : context_(context),
      reading_(context.modifiers.dictionaries.begin(), context.modifiers.dictionaries.end()),
      sums_(reading_.size()) {
  const ModelConfig& config = context.model->config();
  if (config.encoder || is_bidirectional(config) || !config.has_head) {
    throw Unsupported("--sae", "dictionaries are evaluated in models that continue texts");
  }
  for (std::size_t i = 0; i < reading_.size(); ++i) {
    reading_[i].use = DictionaryUse::read;
    sums_[i].n_active.resize(static_cast<std::size_t>(reading_[i].dictionary->d_sae()));
  }
  context_.modifiers.dictionaries = reading_;
}

DictionaryEvaluation::~DictionaryEvaluation() = default;

double DictionaryEvaluation::add(std::span<const std::int32_t> ids, std::int64_t first_row) {
  WindowRun plain(context_, ids);
  Reader reader(*this, ids, first_row);
  plain.run(&reader);
  double nats = 0;
  for (std::size_t i = 0; i < reading_.size(); ++i) nats = compare(i, ids, first_row, plain);
  return nats;
}

double DictionaryEvaluation::compare(std::size_t number, std::span<const std::int32_t> ids, std::int64_t first_row,
                                     WindowRun& plain) {
  std::vector<AppliedDictionary> replacing = reading_;
  replacing[number].use = DictionaryUse::replace;
  GenerateContext changed = context_;
  changed.modifiers.dictionaries = replacing;
  WindowRun with(changed, ids), ablated(context_, ids);
  with.run();
  ZeroSite zero(*reading_[number].dictionary);
  ablated.run(&zero);

  Sums& to = sums_[number];
  double nats = 0;
  const auto n_rows = std::ssize(ids), vocab_size = static_cast<std::int64_t>(context_.model->config().vocab_size);
  const std::int64_t group = rows_of_logits_at_once(context_.model->config());
  std::vector<TokenLosses> losses;
  for (std::int64_t first = first_row; first < n_rows; first += group) {
    const std::int64_t n = std::min(group, n_rows - first);
    const ArenaScope scope(plain.arena()), scope_with(with.arena()), scope_ablated(ablated.arena());
    const Tensor own = plain.logits(first, n), replaced = with.logits(first, n), zeroed = ablated.logits(first, n);
    losses.assign(static_cast<std::size_t>(n), {});
    context_.pool->parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      const auto row_of = [&](const Tensor& x, std::int64_t t) {
        return std::span<const float>(x.row(t), static_cast<std::size_t>(vocab_size));
      };
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t next = first + t + 1;
        losses[static_cast<std::size_t>(t)] =
            losses_of(row_of(own, t), row_of(replaced, t), row_of(zeroed, t),
                      next < n_rows ? std::optional(ids[static_cast<std::size_t>(next)]) : std::nullopt);
      }
    });
    for (std::int64_t t = 0; t < n; ++t) {
      const TokenLosses& token = losses[static_cast<std::size_t>(t)];
      nats += token.without;
      if (!counts(reading_[number], ids, first_row, first + t)) continue;
      to.losses.kl_with += token.kl_with;
      to.losses.kl_ablated += token.kl_ablated;
      to.losses.without += token.without;
      to.losses.with += token.with;
      to.losses.ablated += token.ablated;
      ++to.n_divergences;
      if (first + t + 1 < n_rows) ++to.n_losses;
    }
  }
  return nats;
}

std::vector<DictionaryQuality> DictionaryEvaluation::results() const {
  std::vector<DictionaryQuality> all;
  for (std::size_t i = 0; i < reading_.size(); ++i) {
    const Sums& sums = sums_[i];
    const auto n = static_cast<double>(sums.reconstruction.tokens()), n_losses = static_cast<double>(sums.n_losses);
    if (n == 0) throw BadInput("--sae-skip", "expected a token at which the dictionary is not skipped, got none");
    const TokenLosses& losses = sums.losses;
    const auto n_kl = static_cast<double>(sums.n_divergences);
    all.push_back({reading_[i].dictionary.get(),
                   sums.reconstruction.tokens(),
                   static_cast<double>(sums.n_features) / n,
                   sums.magnitudes / n,
                   sums.reconstruction.means(),
                   {losses.without / n_losses, losses.with / n_losses, losses.ablated / n_losses, losses.kl_with / n_kl,
                    losses.kl_ablated / n_kl},
                   sums.n_active});
  }
  return all;
}

std::int64_t DictionaryQuality::dead() const { return std::ranges::count(n_active, 0); }

}  // namespace vitrine
