#include <algorithm>

#include "base/math.h"
#include "inspect/attribution.h"
#include "inspect/head_scores.h"
#include "inspect/lens.h"
#include "inspect/patch.h"
#include "look/figures.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLensTop = 3;
constexpr std::size_t kMostRanked = 64;  // tokens: the rank of each costs a pass over the vocabulary for every state

}  // namespace

void add_lens_values(const GenerateContext& context, const Recording& r, LookData& data) {
  std::vector<std::int32_t> predicted;  // distinct
  for (const auto& top : r.top) {
    const std::int32_t id = top.front().id;
    if (std::find(predicted.begin(), predicted.end(), id) == predicted.end()) predicted.push_back(id);
  }
  const bool are_ranked = predicted.size() <= kMostRanked;
  const std::vector<std::int32_t> none;
  const Lens found = lens(context, Tokens{std::span(r.facts.ids)}, {kLensTop, are_ranked ? predicted : none, true});
  std::vector<std::int32_t> ids;
  std::vector<double> probs, ranks, entropies, kls;
  for (const std::vector<LensCell>& row : found.cells) {
    for (std::size_t t = 0; t < row.size(); ++t) {
      for (const LensToken& token : row[t].top) {
        ids.push_back(token.id);
        probs.push_back(math::exp(token.logprob));
      }
      entropies.push_back(row[t].entropy);
      kls.push_back(row[t].kl);
      if (!are_ranked) continue;
      const auto at = std::find(predicted.begin(), predicted.end(), r.top[t].front().id) - predicted.begin();
      ranks.push_back(static_cast<double>(row[t].tokens[static_cast<std::size_t>(at)].rank));
    }
  }
  const auto states = static_cast<std::int64_t>(found.states.size());
  const std::int64_t n = r.n_tokens(), k = static_cast<std::int64_t>(found.cells[0][0].top.size());
  std::vector<std::string> names;
  for (const SiteId& state : found.states) names.push_back(name_of(state));
  data.add("lens", "lens.id", {states, n, k}, ids);
  data.label(names);
  data.add("lens", "lens.prob", {states, n, k}, probs);
  if (are_ranked) data.add("lens", "lens.rank", {states, n}, ranks);
  data.add("lens", "lens.entropy", {states, n}, entropies);
  data.add("lens", "lens.kl", {states, n}, kls);
}

void add_head_values(const GenerateContext& context, const Recording& r, LookData& data) {
  const auto& blocks = r.facts.config->blocks;
  std::int64_t most = 0;
  for (const BlockConfig& b : blocks) most = std::max(most, b.has_attention() ? b.attention().n_heads : 0);
  if (most == 0) return;
  const std::vector<HeadScores> scores = head_scores(context, Tokens{std::span(r.facts.ids)});
  using Get = std::optional<double> (*)(const HeadScores&);
  const std::pair<const char*, Get> kinds[] = {
      {"previous", [](const HeadScores& s) { return s.previous; }},
      {"first", [](const HeadScores& s) { return s.first; }},
      {"current", [](const HeadScores& s) { return std::optional(s.current); }},
      {"duplicate", [](const HeadScores& s) { return s.duplicate; }},
      {"induction", [](const HeadScores& s) { return s.induction; }},
      {"distance", [](const HeadScores& s) { return std::optional(s.distance); }},
      {"entropy", [](const HeadScores& s) { return std::optional(s.entropy); }}};
  const auto n_layers = static_cast<std::int64_t>(blocks.size());
  for (const auto& [name, get] : kinds) {
    std::vector<double> values(static_cast<std::size_t>(n_layers * most), kNoValue);
    for (const HeadScores& s : scores) {
      values[static_cast<std::size_t>(s.layer * most + s.head)] = get(s).value_or(kNoValue);
    }
    data.add("heads", std::string("heads.") + name, {n_layers, most}, values);
  }
}

void add_attribution_values(const GenerateContext& context, const Recording& r, LookData& data) {
  const auto& blocks = r.facts.config->blocks;
  AttributionOptions options;
  options.token = r.top[static_cast<std::size_t>(r.position)].front().id;
  options.position = r.position;
  const Tokens tokens{std::span(r.facts.ids)};
  std::vector<double> values;
  std::vector<std::string> names;
  for (const AttributionTerm& term : attribute(context, tokens, options).terms) {
    names.push_back(term.name);
    values.push_back(term.value);
  }
  data.add("attribution", "attribution.component", {static_cast<std::int64_t>(values.size())}, values);
  data.label(names);

  std::int64_t most = 0;
  for (const BlockConfig& b : blocks) most = std::max(most, b.has_attention() ? b.attention().n_heads : 0);
  const auto n_layers = static_cast<std::int64_t>(blocks.size());
  std::vector<double> heads(static_cast<std::size_t>(n_layers * most), kNoValue);
  options.by_head = true;
  const std::vector<AttributionTerm> terms = attribute(context, tokens, options).terms;
  for (std::int64_t l = 0; l < n_layers; ++l) {
    for (std::int64_t h = 0; h < most; ++h) {
      const std::string name = in_block(l, "attn.head." + std::to_string(h));
      const auto term =
          std::find_if(terms.begin(), terms.end(), [&](const AttributionTerm& t) { return t.name == name; });
      if (term != terms.end()) heads[static_cast<std::size_t>(l * most + h)] = term->value;
    }
  }
  data.add("attribution", "attribution.head", {n_layers, most}, heads);
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
  const std::vector<std::int32_t> ids(corrupted.begin(), corrupted.end());
  data.add("patch", "patch.corrupted.id", {r.n_tokens()}, ids);
  const std::vector<double> ends = {found.clean, found.corrupted};
  data.add("patch", "patch.ends", {2}, ends);
  data.label({"clean", "corrupted"});
}

}  // namespace vitrine
