// Sites that keep the values of the run without writes (--freeze).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generate/context.h"
#include "inspect/recorder.h"
#include "pass/segment_taps.h"

namespace vitrine {

/// The values of sites in a run of a whole text, for runs that read parts of it.
class FrozenValues {
 public:
  /// Runs the text. `selection`: sites whose rows are tokens, or which have a row for each token and head.
  FrozenValues(const GenerateContext& context, const Tokens& tokens, SiteSelection selection);

  bool has(const SiteId& id) const { return selection_.contains(id); }
  /// Replaces the rows of the tokens from `first` on, `[n, …]` or `[H, n, S]`. Throws Unsupported for another shape.
  void copy_to(const SiteId& id, const Tensor& own, std::int64_t first) const;

 private:
  SiteSelection selection_;
  std::map<std::string, std::pair<Shape, std::vector<float>>> values_{};
};

/// The sites that the globs select. `has_logits`: the run has the sites of the final norm. Throws as CleanRun's
/// constructor.
SiteSelection sites_to_freeze(const GenerateContext& context, const std::vector<std::string>& globs, bool has_logits);

/// A second run of a sequence, without writes, next to one with writes: it reads the same tokens, and its values
/// replace those at the frozen sites. What a dictionary changes comes after the value of its site, so it is added to
/// the frozen value. With DictionaryUse::error, so is what the change of its input does through a skip connection.
class CleanRun {
 public:
  /// `context`: of a model without an encoder; its taps are not used. `capacity`: of the sequence's cache; 0: the
  /// sequence is one pass without a cache, whose logits of all rows are requested if sites of the final norm are
  /// frozen. Throws BadInput for a glob that matches no site, and Unsupported for sites of the head, in a sequence with
  /// a cache also of the final norm, and of models whose rows do not belong to one sequence.
  CleanRun(const GenerateContext& context, const std::vector<std::string>& globs, std::int64_t capacity);

  /// hook_tokens, where the run begins, a frozen site, or what a skip connection at one reads and writes.
  bool wants(const SiteId& id) const {
    return id.site == Site::tokens || is_frozen(id) || skip_at(id, DictionarySite::input) != nullptr ||
           skip_at(id, DictionarySite::output) != nullptr;
  }
  bool is_frozen(const SiteId& id) const { return id.site != Site::tokens && selection_.contains(id); }
  /// The value to continue with. At hook_tokens reads tokens, the first of which is at `position`; a frozen value is
  /// recorded as an op through which no gradient flows.
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t position);

 private:
  void read(const Tensor& tokens, std::int64_t position);
  Tensor frozen(Pass& pass, const SiteId& id, const Tensor& value) const;
  /// The dictionary with a skip connection at a frozen site, if `id` is its value; else null.
  const Dictionary* skip_at(const SiteId& id, DictionarySite value) const;
  void keep_skipped(Pass& pass, const Dictionary& dictionary, const SiteId& id, const Tensor& x);
  Tensor with_skipped(Pass& pass, const Dictionary& dictionary, const Tensor& value) const;

  GenerateContext context_;
  SiteSelection selection_;
  std::optional<KvCache> cache_;
  bool has_final_norm_ = false;
  std::map<std::string, std::vector<float>> values_;           // of the tokens that have been read last
  std::map<const Dictionary*, std::vector<float>> skipped_{};  // what the change of the input adds to the output
};

/// Taps of a sequence whose frozen sites have the values of a clean run, before `inner` sees and changes them.
class FrozenSequence : public SequenceTaps {
 public:
  FrozenSequence(CleanRun clean, std::shared_ptr<SequenceTaps> inner)
      : clean_(std::move(clean)), inner_(std::move(inner)) {}

  bool wants(const SiteId& id) const override { return clean_.wants(id) || inner_->wants(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions) override;

 private:
  CleanRun clean_;
  std::shared_ptr<SequenceTaps> inner_;
};

/// The same for a pass of one sequence.
class FrozenPass : public Taps {
 public:
  FrozenPass(CleanRun clean, Taps& inner) : clean_(std::move(clean)), inner_(inner) {}

  bool wants(const SiteId& id) const override { return clean_.wants(id) || inner_.wants(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override;
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override { inner_.visit_steps(pass, id, value); }
  bool wants_gradient(const SiteId& id) const override { return inner_.wants_gradient(id); }
  void visit_gradient(Pass& pass, const SiteId& id, const Tensor& gradient) override {
    inner_.visit_gradient(pass, id, gradient);
  }

 private:
  CleanRun clean_;
  Taps& inner_;
};

}  // namespace vitrine
