#include <algorithm>
#include <cmath>

#include "checkpoint/param_rows.h"
#include "inspect/embedding.h"
#include "look/figures.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxWords = 16;

std::vector<std::int32_t> distinct(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> result;
  for (const std::int32_t id : ids) {
    if (std::find(result.begin(), result.end(), id) == result.end() && result.size() < kMaxWords) result.push_back(id);
  }
  return result;
}

void add_space(const EmbeddingSpace& space, const std::vector<std::int32_t>& words, LookData& data) {
  std::vector<double> cosines, near_cosines;
  std::vector<std::int32_t> near_ids;
  std::vector<std::vector<EmbeddingTerm>> terms;
  for (const std::int32_t a : words) {
    for (const std::int32_t b : words) cosines.push_back(space.cosine(a, b));
    terms.push_back({{a, 1.0f}});
  }
  for (const std::vector<Neighbor>& near : space.nearest(terms, kLookTop)) {
    for (const Neighbor& x : near) {
      near_ids.push_back(x.id);
      near_cosines.push_back(x.cosine);
    }
  }
  const auto n = static_cast<std::int64_t>(words.size()), k = static_cast<std::int64_t>(near_ids.size()) / n;
  data.add("embedding", "embedding.id", words);
  data.add("embedding", "embedding.cosine", {n, n}, cosines);
  data.add("embedding", "embedding.near.id", {n, k}, near_ids);
  data.add("embedding", "embedding.near.cosine", {n, k}, near_cosines);
}

void add_analogy(const EmbeddingSpace& space, const std::vector<EmbeddingTerm>& terms, LookData& data) {
  std::vector<std::int32_t> ids;
  std::vector<double> cosines;
  const std::vector<Neighbor> near = space.nearest(std::span(&terms, 1), kLookTop).front();
  for (const Neighbor& x : near) {
    ids.push_back(x.id);
    cosines.push_back(x.cosine);
  }
  data.add("embedding", "analogy.id", ids);
  data.add("embedding", "analogy.cosine", cosines);
}

}  // namespace

void add_embedding_values(const GenerateContext& context, const Recording& r, const LookWords& words, LookData& data) {
  const EmbeddingSpace space(*context.model, *context.pool, *context.kernels);
  add_space(space, distinct(words.words.empty() ? r.facts.ids : words.words), data);
  if (!words.analogy.empty()) add_analogy(space, words.analogy, data);
}

void add_direction_values(const GenerateContext& context, const Recording& r, LookData& data) {
  if (!r.has("unembed.hook_in")) return;
  const Model& model = *context.model;
  const Param& head = model.config().head.tied ? model.params().embed : model.params().unembed.weight;
  const std::span<const float> x = r.row("unembed.hook_in", r.position);
  std::vector<float> w(x.size());
  std::vector<std::int32_t> ids;
  std::vector<double> products, lengths, cosines;
  double length_of_x = 0;
  for (const float v : x) length_of_x += static_cast<double>(v) * static_cast<double>(v);
  for (const TokenLogprob& t : r.top[static_cast<std::size_t>(r.position)]) {
    read_row(head.view, t.id, w);
    double product = 0, squares = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      product += static_cast<double>(w[i]) * static_cast<double>(x[i]);
      squares += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    ids.push_back(t.id);
    products.push_back(product);
    lengths.push_back(std::sqrt(squares));
    cosines.push_back(cosine_of(product, squares, length_of_x));
  }
  data.add("embedding", "direction.id", ids);
  data.add("embedding", "direction.product", products);
  data.add("embedding", "direction.length", lengths);
  data.add("embedding", "direction.cosine", cosines);
}

}  // namespace vitrine
