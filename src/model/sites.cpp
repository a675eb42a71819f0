#include "model/sites.h"

#include <algorithm>
#include <vector>

#include "model/config.h"
#include "ops/attention_sites.h"

namespace vitrine {
namespace {

using Tables = std::vector<const SiteTable*>;

template <class... Kinds>
void add_tables(Tables& tables, const std::variant<Kinds...>*) {
  (tables.push_back(&site_table(Kinds())), ...);
}

std::vector<Site> sorted_sites() {
  Tables tables = {&kSharedTable, &kAltUpSiteTable};
  add_tables(tables, static_cast<const SublayerKinds::Config*>(nullptr));
  add_tables(tables, static_cast<const LayerKinds::Config*>(nullptr));
  std::sort(tables.begin(), tables.end());
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());  // kinds may share one
  std::vector<Site> sites;
  for (const SiteTable* const table : tables) {
    for (std::size_t row = 0; row < table->rows.size(); ++row) sites.emplace_back(*table, row);
  }
  std::sort(sites.begin(), sites.end());
  return sites;
}

}  // namespace

std::span<const Site> all_sites() {
  static const std::vector<Site> sites = sorted_sites();
  return sites;
}

std::size_t number_of(Site site) {
  const std::span<const Site> sites = all_sites();
  return static_cast<std::size_t>(std::lower_bound(sites.begin(), sites.end(), site) - sites.begin());
}

bool in_cross_attention(Site site) {
  using enum AttentionSite;
  if (site == cross_attn_in) return true;
  const SitePlace place = info(site).place;
  const bool is_shared = site.table().rows.data() == kSharedSites.data();
  return place > SitePlace::mixer_input && place <= SitePlace::middle && site != rot_q && site != rot_k &&
         site != rel_pos_q && site != rel_pos_k && (is_shared || site.table().rows.data() == kAttentionSites.data());
}

}  // namespace vitrine
