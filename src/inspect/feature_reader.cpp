#include "inspect/feature_reader.h"

#include <algorithm>
#include <iterator>

#include "inspect/text_pass.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

/// Appends the sparse rows of each dictionary.
class FeatureTaps : public Taps {
 public:
  explicit FeatureTaps(std::vector<ActiveFeatures>& to) : to_(to) {
    for (const ActiveFeatures& own : to_) {
      const SiteId id = own.dictionary->at(DictionarySite::acts_post);
      if (!last_ || precedes(*last_, id)) last_ = id;
    }
  }

  bool wants(const SiteId&) const override { return false; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
  bool wants_sparse(const SiteId& id) const override { return find(id) != to_.end(); }
  void visit_sparse(Pass&, const SiteId& id, const SparseRows& rows) override {
    std::ranges::copy(rows.rows, std::back_inserter(find(id)->rows.rows));
  }
  std::optional<SiteId> last_wanted() const override { return last_; }

 private:
  std::vector<ActiveFeatures>::iterator find(const SiteId& id) const {
    return std::ranges::find_if(to_, [&](const ActiveFeatures& own) { return &own.dictionary->name == id.dictionary; });
  }

  std::vector<ActiveFeatures>& to_;
  std::optional<SiteId> last_{};
};

}  // namespace

std::vector<ActiveFeatures> read_features(const GenerateContext& given, std::span<const std::int32_t> ids) {
  std::vector<ActiveFeatures> all;
  for (const AppliedDictionary& applied : given.modifiers.dictionaries) all.push_back({applied.dictionary.get(), {}});
  const ModelConfig& config = given.model->config();
  if (config.encoder) throw Unsupported("features", "the model is an encoder–decoder");
  FeatureTaps taps(all);
  GenerateContext context = given;
  context.taps = &taps;
  Arena arena;
  if (is_bidirectional(config)) {
    Pass pass = text_pass(context, arena, ids);
    context.model->forward(pass, ids);
    return all;
  }
  text_pass(context, arena, ids);  // checks the text
  KvCache cache = context.make_cache(std::ssize(ids));
  for (std::int64_t first = 0; first < std::ssize(ids); first += context.chunk) {
    const std::int64_t n = std::min(context.chunk, std::ssize(ids) - first);
    Pass pass = context.make_pass(arena, {{0, n, first, &cache}});
    context.forward(pass, ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
  }
  return all;
}

std::vector<SparseValue> strongest(std::span<const SparseValue> row, std::size_t k) {
  std::vector<SparseValue> all(row.begin(), row.end());
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(k, all.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const SparseValue& a, const SparseValue& b) {
    return a.value != b.value ? a.value > b.value : a.index < b.index;
  });
  all.erase(end, all.end());
  return all;
}

}  // namespace vitrine
