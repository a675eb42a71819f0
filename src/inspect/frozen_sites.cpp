#include "inspect/frozen_sites.h"

#include <algorithm>

#include "base/exchanged.h"
#include "inspect/sequence_recorder.h"
#include "inspect/text_pass.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

std::string key_of_site(const SiteId& id) {
  SiteId own = id;
  own.segment = -1;
  return name_of(own);
}

}  // namespace

SiteSelection sites_to_freeze(const GenerateContext& context, const std::vector<std::string>& globs, bool has_logits) {
  check_has_rows(context.model->config());
  // Checks the names: a recorder throws for globs that no site of the model matches.
  const SequenceRecorder names(*context.model, globs, {}, context.modifiers.dictionaries);
  SiteSelection selection(globs, site_layers(context.model->config(), context.modifiers.dictionaries));
  const std::optional<SiteId> last = selection.last();
  // A glob of divisors matches that of the head's norm, which few models have.
  const bool lacks_it = last && last->site == norms::head.scale && !context.model->config().head.transform;
  if (last && info(last->site).place >= SitePlace::final_norm &&
      (!has_logits || (info(last->site).place > SitePlace::final_norm && !lacks_it))) {
    throw Unsupported("--freeze", "{}: expected a site before the {}", name_of(*last),
                      has_logits ? "unembedding" : "final norm");
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
    : context_(context), selection_(sites_to_freeze(context, globs, capacity == 0)) {
  const std::optional<SiteId> last = selection_.last();
  has_final_norm_ = last && info(last->site).place >= SitePlace::final_norm;
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
    bool wants(const SiteId& id) const override {
      return run_.is_frozen(id) || run_.skip_at(id, DictionarySite::input) != nullptr;
    }
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
  if (has_final_norm_)
    pass.logits = {LogitRequest::Rows::range, 0, std::ssize(ids), [](std::int64_t, const Tensor&) {}};
  context_.forward(pass, ids);
  context_.taps = nullptr;
}

const Dictionary* CleanRun::skip_at(const SiteId& id, DictionarySite value) const {
  if (id.dictionary == nullptr || id.value != value) return nullptr;
  for (const AppliedDictionary& applied : context_.modifiers.dictionaries) {
    const Dictionary& d = *applied.dictionary;
    const bool follows = applied.use == DictionaryUse::error && d.skip.present() && is_frozen(d.output);
    if (follows && d.at(value) == id) return &d;
  }
  return nullptr;
}

void CleanRun::keep_skipped(Pass& pass, const Dictionary& dictionary, const SiteId& id, const Tensor& x) {
  const Exchanged<Tape*> without_tape(pass.training.tape, nullptr);
  const Exchanged exact(pass.compute, Compute::f32);
  const ArenaScope scope(pass.arena);
  const std::vector<float>& clean = values_.at(key_of_site(id));
  const Tensor change = pass.tensor(x.shape);
  for (std::int64_t i = 0; i < x.count(); ++i) change.data[i] = x.data[i] - clean[static_cast<std::size_t>(i)];
  const Tensor skipped = product(pass, dictionary.skip, change);
  skipped_[&dictionary].assign(skipped.data, skipped.data + skipped.count());
}

Tensor CleanRun::with_skipped(Pass& pass, const Dictionary& dictionary, const Tensor& value) const {
  const std::vector<float>& skipped = skipped_.at(&dictionary);
  const Tensor result = pass.tensor(value.shape);
  for (std::int64_t i = 0; i < value.count(); ++i) {
    result.data[i] = value.data[i] + skipped[static_cast<std::size_t>(i)];
  }
  if (pass.is_taped() && pass.training.tape->knows(value)) {
    pass.record(OpKind::write, {value}, result,
                [&pass, value, result] { accumulate(pass, pass.grad(result), pass.grad(value)); });
  }
  return result;
}

Tensor CleanRun::visit(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t position) {
  if (pass.shapes_only) return value;
  if (id.site == Site::tokens) read(value, position);
  const Tensor own = is_frozen(id) ? frozen(pass, id, value) : value;
  if (const Dictionary* const d = skip_at(id, DictionarySite::input)) keep_skipped(pass, *d, id, own);
  const Dictionary* const d = skip_at(id, DictionarySite::output);
  return d != nullptr ? with_skipped(pass, *d, own) : own;
}

Tensor CleanRun::frozen(Pass& pass, const SiteId& id, const Tensor& value) const {
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
  const Tensor own = clean_.visit(pass, id, value, positions.front());
  return inner_->wants(id) ? inner_->visit(pass, id, own, positions) : own;
}

Tensor FrozenPass::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  const Tensor own = clean_.visit(pass, id, value, 0);
  return inner_.wants(id) ? inner_.visit(pass, id, own) : own;
}

void FrozenPass::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                            const Tensor& factor) {
  if (clean_.is_frozen(id)) throw Unsupported("--freeze", "{}: a state is computed step by step", name_of(id));
  inner_.visit_step(pass, id, value, first, count, factor);
}

}  // namespace vitrine
