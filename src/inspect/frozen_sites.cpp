#include "inspect/frozen_sites.h"

#include <algorithm>

#include "inspect/sequence_recorder.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

std::string key_of_site(const SiteId& id) {
  SiteId own = id;
  own.segment = -1;
  return name_of(own);
}

}  // namespace

CleanRun::CleanRun(const GenerateContext& context, std::vector<std::string> globs, std::int64_t capacity)
    : context_(context), selection_(globs, site_layers(context.model->config(), context.modifiers.dictionaries)) {
  check_has_rows(context.model->config());
  context_.taps = nullptr;
  if (capacity > 0) cache_.emplace(context_.make_cache(capacity));
  // Checks the names: a recorder throws for globs that no site of the model matches.
  const SequenceRecorder names(*context.model, globs, {}, context.modifiers.dictionaries);
  const std::optional<SiteId> last = selection_.last();
  if (last && info(last->site).place >= SitePlace::final_norm) {
    throw Unsupported("--freeze", "{}: expected a site before the final norm", name_of(*last));
  }
}

void CleanRun::read(const Tensor& tokens, std::int64_t position) {
  std::vector<std::int32_t> ids;
  for (const float id : tokens.values()) ids.push_back(static_cast<std::int32_t>(id));
  values_.clear();
  class Keep : public Taps {
   public:
    Keep(const CleanRun& run, std::map<std::string, std::vector<float>>& to) : run_(run), to_(to) {}
    bool wants(const SiteId& id) const override { return run_.is_frozen(id); }
    Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
      to_[key_of_site(id)].assign(value.data, value.data + value.count());
      return value;
    }

   private:
    const CleanRun& run_;
    std::map<std::string, std::vector<float>>& to_;
  } keep(*this, values_);
  context_.taps = &keep;
  if (cache_ && cache_->length() > position) cache_->truncate(position);  // the sequence reads tokens again
  Arena arena;
  Pass pass = context_.make_pass(arena, {{0, std::ssize(ids), position, cache_ ? &*cache_ : nullptr}});
  context_.forward(pass, ids);
  context_.taps = nullptr;
}

Tensor CleanRun::frozen(Pass& pass, const SiteId& id, const Tensor& value) const {
  if (pass.shapes_only) return value;
  const auto found = values_.find(key_of_site(id));
  if (found == values_.end() || static_cast<std::int64_t>(found->second.size()) != value.count()) {
    throw Unsupported("--freeze", "{}: the run without writes has no value of this shape", name_of(id));
  }
  const Tensor result = pass.tensor(value.shape);
  std::ranges::copy(found->second, result.data);
  if (pass.is_taped() && pass.training.tape->knows(value)) pass.record(OpKind::write, {value}, result, [] {});
  return result;
}

Tensor FrozenSequence::visit(Pass& pass, const SiteId& id, const Tensor& value,
                             std::span<const std::int64_t> positions) {
  if (id.site == Site::tokens && !pass.shapes_only) clean_.read(value, positions.front());
  const Tensor own = clean_.is_frozen(id) ? clean_.frozen(pass, id, value) : value;
  return inner_->wants(id) ? inner_->visit(pass, id, own, positions) : own;
}

Tensor FrozenPass::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  if (id.site == Site::tokens && !pass.shapes_only) clean_.read(value, 0);
  const Tensor own = clean_.is_frozen(id) ? clean_.frozen(pass, id, value) : value;
  return inner_.wants(id) ? inner_.visit(pass, id, own) : own;
}

void FrozenPass::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                            const Tensor& factor) {
  if (clean_.is_frozen(id)) throw Unsupported("--freeze", "{}: a state is computed step by step", name_of(id));
  inner_.visit_step(pass, id, value, first, count, factor);
}

}  // namespace vitrine
