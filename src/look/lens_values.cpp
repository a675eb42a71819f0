#include <algorithm>

#include "base/math.h"
#include "inspect/head_scores.h"
#include "inspect/lens.h"
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

}  // namespace vitrine
