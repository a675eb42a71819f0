#include "inspect/frozen_sites.h"

#include <algorithm>

#include "inspect/sequence_recorder.h"
#include "inspect/text_pass.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

std::string key_of_site(const SiteId& id) {
  SiteId own = id;
  own.segment = -1;
  return name_of(own);
}

}  // namespace

SiteSelection sites_to_freeze(const GenerateContext& context, const std::vector<std::string>& globs) {
  check_has_rows(context.model->config());
  // Checks the names: a recorder throws for globs that no site of the model matches.
  const SequenceRecorder names(*context.model, globs, {}, context.modifiers.dictionaries);
  SiteSelection selection(globs, site_layers(context.model->config(), context.modifiers.dictionaries));
  const std::optional<SiteId> last = selection.last();
  if (last && info(last->site).place >= SitePlace::final_norm) {
    throw Unsupported("--freeze", "{}: expected a site before the final norm", name_of(*last));
  }
  return selection;
}

FrozenValues::FrozenValues(const GenerateContext& context, const Tokens& tokens, SiteSelection selection)
    : selection_(std::move(selection)) {
  class Keep : public Taps {
   public:
    explicit Keep(FrozenValues& to) : to_(to) {}
    bool wants(const SiteId& id) const override { return to_.has(id); }
    Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
      to_.values_[key_of_site(id)] = {value.shape, {value.data, value.data + value.count()}};
      return value;
    }

   private:
    FrozenValues& to_;
  } keep(*this);
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &keep;
  context.model->forward(pass, tokens);
}

void FrozenValues::copy_to(const SiteId& id, const Tensor& own, std::int64_t first) const {
  const auto found = values_.find(key_of_site(id));
  if (found == values_.end()) throw Unsupported("--freeze", "{}: the unchanged run has no value", name_of(id));
  const auto& [shape, values] = found->second;
  const bool has_columns = info(id).shape.dims().front() != dims::T;  // [H, T, S]
  const std::int64_t n = has_columns ? own.shape[1] : own.shape[0];
  const std::int64_t n_parts = has_columns ? own.shape[0] : 1,
                     size = own.count() / std::max<std::int64_t>(1, n_parts * n);
  const std::int64_t n_all = static_cast<std::int64_t>(values.size()) / (n_parts * std::max<std::int64_t>(1, size));
  if (shape.rank() != own.shape.rank() || n_all < first + n || n_parts * n_all * size != std::ssize(values)) {
    throw Unsupported("--freeze", "{}: the unchanged run has no value of this shape", name_of(id));
  }
  for (std::int64_t part = 0; part < n_parts; ++part) {
    std::copy_n(values.data() + (part * n_all + first) * size, n * size, own.data + part * n * size);
  }
}

CleanRun::CleanRun(const GenerateContext& context, const std::vector<std::string>& globs, std::int64_t capacity)
    : context_(context), selection_(sites_to_freeze(context, globs)) {
  context_.taps = nullptr;
  if (capacity > 0) cache_.emplace(context_.make_cache(capacity));
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
