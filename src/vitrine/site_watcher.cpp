#include "vitrine/site_watcher.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/op_kind.h"

namespace vitrine {

SiteWatcher::SiteWatcher(const Watch& watch, const SiteLayers& layers)
    : globs_(watch.sites), glob_met_(globs_.size()), sites_(globs_, layers), tap_(watch.tap) {
  if (watch.function && watch.tap) throw BadInput("watch", "expected a function or a tap, got both");
  if (watch.function) {
    tap_ = [function = watch.function](const std::string& name, std::span<const std::int64_t> shape,
                                       std::span<const float> value, std::span<float> replacement) {
      std::copy(value.begin(), value.end(), replacement.begin());
      function(name, replacement, shape);
      return true;
    };
  }
}

bool SiteWatcher::wants(const SiteId& id) const { return tap_ && sites_.contains(id); }

Tensor SiteWatcher::replaced(Pass& pass, const SiteId& id, const Tensor& value) {
  for (std::size_t i = 0; i < globs_.size(); ++i) glob_met_[i] = glob_met_[i] || matches(globs_[i], id);
  const Tensor replacement = pass.tensor(value.shape);
  return tap_(name_of(id), value.shape.sizes(), value.values(), replacement.values()) ? replacement : value;
}

Tensor SiteWatcher::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  const Tensor result = replaced(pass, id, value);
  if (result.data == value.data || !pass.is_taped() || !pass.training.tape->knows(value)) return result;
  const Tensor factor = pass.tensor(value.shape);  // 0 where the function has replaced an element
  for (std::int64_t i = 0; i < value.count(); ++i) {
    factor.data[i] = std::memcmp(value.data + i, result.data + i, sizeof(float)) == 0 ? 1.0f : 0.0f;
  }
  pass.record(OpKind::write, {value}, result, [&pass, value, factor, result] {
    const Tensor dvalue = pass.grad(value), dresult = pass.grad(result);
    pass.kernels.multiply_add(factor.data, dresult.data, value.count(), dvalue.data);
  });
  return result;
}

void SiteWatcher::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                             const Tensor& factor) {
  const ArenaScope scope(pass.arena);
  const Tensor changed = replaced(pass, id, value);
  if (changed.data == value.data) return;
  for (std::int64_t i = first; i < first + count; ++i) {
    const bool is_same = std::memcmp(changed.data + i, value.data + i, sizeof(float)) == 0;
    if (factor.data != nullptr && !is_same) factor.data[i] = 0;
  }
  std::copy_n(changed.data + first, count, value.data + first);
}

std::optional<SiteId> SiteWatcher::last_wanted() const {
  if (tap_) return {};
  return SiteId{};  // the first site: it wants none
}

void SiteWatcher::check_all_met() const {
  for (std::size_t i = 0; i < globs_.size() && tap_; ++i) {
    if (!glob_met_[i]) throw BadInput("watch", "no site of this model matches {}", globs_[i]);
  }
}

}  // namespace vitrine
