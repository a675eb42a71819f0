#include "inspect/feature_reader.h"

#include <algorithm>

#include "inspect/text_pass.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

/// Appends the sparse rows of each dictionary.
class FeatureTaps : public Taps {
 public:
  FeatureTaps(std::vector<ActiveFeatures>& to, std::optional<std::size_t> top) : to_(to), top_(top) {
    for (const ActiveFeatures& own : to_) {
      const SiteId id = own.dictionary->at(DictionarySite::acts_post);
      if (!last_ || precedes(*last_, id)) last_ = id;
    }
  }

  bool wants(const SiteId&) const override { return false; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
  bool wants_sparse(const SiteId& id) const override { return find(id) != to_.end(); }
  void visit_sparse(Pass&, const SiteId& id, const SparseRows& rows) override {
    ActiveFeatures& to = *find(id);
    for (const std::vector<SparseValue>& row : rows.rows) {
      to.n_active.push_back(std::ssize(row));
      to.rows.rows.push_back(top_ ? strongest(row, *top_) : row);
    }
  }
  std::optional<SiteId> last_wanted() const override { return last_; }

 private:
  std::vector<ActiveFeatures>::iterator find(const SiteId& id) const {
    return std::ranges::find_if(to_, [&](const ActiveFeatures& own) { return &own.dictionary->name == id.dictionary; });
  }

  std::vector<ActiveFeatures>& to_;
  std::optional<std::size_t> top_;
  std::optional<SiteId> last_{};
};

}  // namespace

std::vector<ActiveFeatures> read_features(const GenerateContext& given, std::span<const std::int32_t> ids,
                                          std::optional<std::size_t> top) {
  constexpr std::int64_t kFeaturesAtOnce = std::int64_t{1} << 24;  // of a chunk, active or not
  std::vector<ActiveFeatures> all;
  for (const AppliedDictionary& applied : given.modifiers.dictionaries)
    all.push_back({applied.dictionary.get(), {}, {}});
  const ModelConfig& config = given.model->config();
  if (config.encoder) throw Unsupported("features", "the model is an encoder–decoder");
  FeatureTaps taps(all, top);
  GenerateContext context = given;
  context.taps = &taps;
  for (const ActiveFeatures& own : all) {
    context.chunk = std::min(context.chunk, std::max<std::int64_t>(1, kFeaturesAtOnce / own.dictionary->d_sae()));
  }
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

std::string key_of(const Dictionary& dictionary) {
  return dictionary.name.empty() ? name_of(dictionary.output) : dictionary.name;
}

std::vector<SparseValue> strongest(std::span<const SparseValue> row, std::size_t k) {
  std::vector<SparseValue> found(std::min(k, row.size()));
  std::ranges::partial_sort_copy(row, found, [](const SparseValue& a, const SparseValue& b) {
    return a.value != b.value ? a.value > b.value : a.index < b.index;
  });
  return found;
}

}  // namespace vitrine
