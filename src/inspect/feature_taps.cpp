#include "inspect/feature_taps.h"

#include <algorithm>

#include "pass/dictionary_sites.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

/// Whose activations these are; the end if they are of none.
template <class Features>
auto features_of(Features& all, const SiteId& id) {
  return std::ranges::find_if(all, [&](const ActiveFeatures& own) {
    return id.value == DictionarySite::acts_post && &own.dictionary->name == id.dictionary;
  });
}

}  // namespace

FeatureRows::FeatureRows(AppliedDictionaries dictionaries, std::optional<std::size_t> top) : top_(top) {
  for (const AppliedDictionary& applied : dictionaries) {
    if (is_probe(*applied.dictionary)) continue;
    all_.push_back({applied.dictionary.get(), {}, {}});
    const SiteId id = applied.dictionary->at(DictionarySite::acts_post);
    if (precedes(last_, id)) last_ = id;
  }
}

bool FeatureRows::has(const SiteId& id) const {
  return id.dictionary != nullptr && features_of(all_, id) != all_.end();
}

void FeatureRows::append(const SiteId& id, std::span<const std::vector<SparseValue>> rows, std::int64_t position) {
  ActiveFeatures& to = *features_of(all_, id);
  const std::int64_t known = std::ssize(to.n_active) - position;
  if (known >= std::ssize(rows)) return;
  for (const std::vector<SparseValue>& row : rows.subspan(static_cast<std::size_t>(std::max<std::int64_t>(0, known)))) {
    to.n_active.push_back(std::ssize(row));
    to.rows.rows.push_back(top_ ? strongest(row, *top_) : row);
  }
}

std::optional<SiteId> FeatureRows::last_or(std::optional<SiteId> other) const {
  return other && precedes(*other, last_) ? last_ : other;
}

void FeatureTaps::visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) {
  if (!pass.shapes_only) rows_.append(id, rows.rows, pass.segments.front().position);
}

}  // namespace vitrine
