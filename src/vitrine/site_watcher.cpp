#include "vitrine/site_watcher.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

SiteWatcher::SiteWatcher(const Watch& watch, const ModelConfig& config) : function_(watch.function) {
  if (!function_) return;
  for (const std::string& glob : watch.sites) globs_.push_back({glob, {{glob}, site_layers(config)}});
  if (globs_.empty()) globs_.push_back({"", {{}, site_layers(config)}});
}

bool SiteWatcher::wants(const SiteId& id) const {
  return std::any_of(globs_.begin(), globs_.end(), [&](const Glob& glob) { return glob.sites.contains(id); });
}

Tensor SiteWatcher::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  for (Glob& glob : globs_) glob.is_met = glob.is_met || glob.sites.contains(id);
  const Tensor copy = pass.tensor(value.shape);
  std::copy_n(value.data, value.count(), copy.data);
  function_(name_of(id), copy.values(), copy.shape.sizes());
  return copy;
}

void SiteWatcher::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                             const Tensor&) {
  const Tensor changed = visit(pass, id, value);
  std::copy_n(changed.data + first, count, value.data + first);
}

void SiteWatcher::check_all_met() const {
  for (const Glob& glob : globs_) {
    if (!glob.is_met) throw BadInput("watch", "no site of this model matches {}", glob.text);
  }
}

}  // namespace vitrine
