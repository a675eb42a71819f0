#include <algorithm>
#include <deque>

#include "base/math.h"
#include "inspect/attribution.h"
#include "inspect/head_scores.h"
#include "inspect/lens.h"
#include "inspect/patch.h"
#include "inspect/text_pass.h"
#include "look/figures.h"
#include "ops/attention_sites.h"

namespace vitrine {
namespace {

constexpr int kLensTop = 3;

/// A copy of values as a tensor.
struct Copy {
  std::vector<float> values;
  Tensor tensor;

  Copy(std::span<const float> of, const Shape& shape) : values(of.begin(), of.end()), tensor{values.data(), shape} {}
};

}  // namespace

void add_lens_values(const GenerateContext& context, const Recording& r, LookData& data) {
  const std::vector<SiteId> states = stream_states(*r.facts.config, true);
  std::vector<std::string> names;
  std::vector<Copy> copies;
  std::vector<Tensor> tensors;
  copies.reserve(states.size());
  for (const SiteId& state : states) {
    names.push_back(name_of(state));
    copies.emplace_back(r.value(names.back()).values,
                        Shape{r.n_tokens(), r.facts.config->width_before(r.facts.config->n_layers())});
    tensors.push_back(copies.back().tensor);
  }
  LensOptions options{kLensTop, {}, true};
  for (const auto& top : r.top) options.by_position.push_back(top.front().id);
  std::vector<std::int32_t> ids;
  std::vector<double> probs, ranks, entropies, kls;
  const auto cells = lens_of(context, Tokens{std::span(r.facts.ids)}, tensors, options);
  for (const std::vector<LensCell>& row : cells) {
    for (const LensCell& cell : row) {
      for (const LensToken& token : cell.top) {
        ids.push_back(token.id);
        probs.push_back(math::exp(token.logprob));
      }
      entropies.push_back(cell.entropy);
      kls.push_back(cell.kl);
      ranks.push_back(static_cast<double>(cell.tokens.front().rank));
    }
  }
  const auto n_states = static_cast<std::int64_t>(states.size());
  const std::int64_t n = r.n_tokens(), k = static_cast<std::int64_t>(cells[0][0].top.size());
  data.add("lens", "lens.id", {n_states, n, k}, ids);
  data.label(names);
  data.add("lens", "lens.prob", {n_states, n, k}, probs);
  data.add("lens", "lens.rank", {n_states, n}, ranks);
  data.add("lens", "lens.entropy", {n_states, n}, entropies);
  data.add("lens", "lens.kl", {n_states, n}, kls);
}

std::vector<HeadScores> scores_of(const Recording& r, ThreadPool& pool) {
  std::vector<HeadScores> all;
  for (std::size_t l = 0; l < r.facts.config->n_layers(); ++l) {
    const AttendConfig* const heads = heads_of(*r.facts.config, l);
    if (heads == nullptr) continue;
    const Copy pattern(r.value(in_block(static_cast<std::int64_t>(l), "attn.hook_pattern")).values,
                       Shape{heads->n_heads, r.n_tokens(), r.n_tokens()});
    const std::vector<HeadScores> own =
        scores_of(pattern.tensor, r.facts.ids, static_cast<int>(l), *r.facts.config, pool);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void add_head_values(const GenerateContext& context, const Recording& r, LookData& data) {
  const std::int64_t most = max_heads(*r.facts.config);
  if (most == 0) return;
  const std::vector<HeadScores> scores = scores_of(r, *context.pool);
  const auto n_layers = static_cast<std::int64_t>(r.facts.config->n_layers());
  for (const ScoreOfHead& kind : kScoresOfHeads) {
    std::vector<double> values(static_cast<std::size_t>(n_layers * most), kNoValue);
    for (const HeadScores& s : scores) values[static_cast<std::size_t>(s.layer * most + s.head)] = kind.value(s);
    data.add("heads", std::string("heads.") + kind.name, {n_layers, most}, values);
  }
}

void add_attribution_values(const GenerateContext& context, const Recording& r, LookData& data) {
  AttributionOptions options;
  options.token = r.top[static_cast<std::size_t>(r.position)].front().id;
  options.position = r.position;
  const Tokens tokens{std::span(r.facts.ids)};
  std::deque<Copy> rows;
  const auto row_at = [&](const SiteId& id) -> Tensor {
    const std::string site = name_of(id);
    if (!r.has(site)) return {};
    const std::span<const float> row = r.row(site, r.position);
    const auto n = static_cast<std::int64_t>(row.size());
    const std::int64_t heads =
        id.site != AttentionSite::z ? 1 : heads_of(*r.facts.config, static_cast<std::size_t>(id.layer))->n_heads;
    return rows.emplace_back(row, id.site == AttentionSite::z ? Shape{1, heads, n / heads} : Shape{1, n}).tensor;
  };
  std::vector<double> values;
  std::vector<std::string> names;
  for (const AttributionTerm& term : attribute(context, tokens, options, row_at).terms) {
    names.push_back(term.name);
    values.push_back(term.value);
  }
  data.add("attribution", "attribution.component", values);
  data.label(names);

  options.by_head = true;
  add_head_attribution(r, attribute(context, tokens, options, row_at).terms, data);
}

void add_patch_values(const GenerateContext& context, const Recording& r, std::span<const std::int32_t> corrupted,
                      LookData& data) {
  PatchOptions options;
  options.token = r.top.back().front().id;
  const Patch found = patch(context, Tokens{std::span(r.facts.ids)}, Tokens{corrupted}, options);
  std::vector<double> metric, recovered;
  for (std::size_t l = 0; l < found.metric.size(); ++l) {
    metric.insert(metric.end(), found.metric[l].begin(), found.metric[l].end());
    recovered.insert(recovered.end(), found.recovered[l].begin(), found.recovered[l].end());
  }
  const auto n_layers = static_cast<std::int64_t>(found.metric.size());
  data.add("patch", "patch.metric", {n_layers, r.n_tokens()}, metric);
  data.add("patch", "patch.recovered", {n_layers, r.n_tokens()}, recovered);
  data.add("patch", "patch.corrupted.id", corrupted);
  data.add("patch", "patch.ends", std::vector{found.clean, found.corrupted});
  data.label({"clean", "corrupted"});
}

}  // namespace vitrine
