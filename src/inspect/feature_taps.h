// Taps that collect the active features of dictionaries, next to others that read and change values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "inspect/feature_reader.h"
#include "pass/segment_taps.h"

namespace vitrine {

/// The activations of dictionaries, after any write, as a forward computes them.
class FeatureRows {
 public:
  /// `top`: only so many of each token are kept, the strongest; nullopt: all.
  FeatureRows(AppliedDictionaries dictionaries, std::optional<std::size_t> top);

  const std::vector<ActiveFeatures>& all() const { return all_; }
  std::vector<ActiveFeatures> take() { return std::move(all_); }
  /// Whether these are the activations of one of the dictionaries.
  bool has(const SiteId& id) const;
  /// Appends the rows of tokens from `position` on, except those of positions that it has.
  void append(const SiteId& id, std::span<const std::vector<SparseValue>> rows, std::int64_t position);
  /// The last of the dictionaries' activations, or of them and `other`, the last site of other taps; nullopt: any site.
  std::optional<SiteId> last_or(std::optional<SiteId> other) const;

 private:
  std::vector<ActiveFeatures> all_;
  std::optional<std::size_t> top_;
  SiteId last_{};
};

/// Taps of a pass that has the rows of one text, in order.
class FeatureTaps : public Taps {
 public:
  /// `inner` also receives the pass; null: nothing does. Both are borrowed.
  explicit FeatureTaps(FeatureRows& rows, Taps* inner = nullptr) : rows_(rows), inner_(inner) {}

  bool wants(const SiteId& id) const override { return inner_ != nullptr && inner_->wants(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override { return inner_->visit(pass, id, value); }
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override {
    inner_->visit_step(pass, id, value, first, count, factor);
  }
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override { inner_->visit_steps(pass, id, value); }
  bool wants_sparse(const SiteId& id) const override { return rows_.has(id); }
  void visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) override;
  std::optional<SiteId> last_wanted() const override {
    return rows_.last_or(inner_ != nullptr ? inner_->last_wanted() : SiteId{});
  }

 private:
  FeatureRows& rows_;
  Taps* inner_;
};

/// Taps of a sequence.
class SequenceFeatures : public SequenceTaps {
 public:
  /// `inner` also receives the sequence; null: nothing does.
  SequenceFeatures(FeatureRows rows, std::shared_ptr<SequenceTaps> inner)
      : rows_(std::move(rows)), inner_(std::move(inner)) {}

  /// Of all tokens so far.
  const std::vector<ActiveFeatures>& features() const { return rows_.all(); }

  bool wants(const SiteId& id) const override { return inner_ != nullptr && inner_->wants(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions) override {
    return inner_->visit(pass, id, value, positions);
  }
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t row, std::int64_t position) override {
    inner_->visit_step(pass, id, value, row, position);
  }
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override { inner_->visit_steps(pass, id, value); }
  bool wants_sparse(const SiteId& id) const override { return rows_.has(id); }
  void visit_sparse(const SiteId& id, std::span<const std::vector<SparseValue>> rows,
                    std::span<const std::int64_t> positions) override {
    rows_.append(id, rows, positions.front());
  }
  std::optional<SiteId> last_wanted() const override {
    return rows_.last_or(inner_ != nullptr ? inner_->last_wanted() : SiteId{});
  }

 private:
  FeatureRows rows_;
  std::shared_ptr<SequenceTaps> inner_;
};

}  // namespace vitrine
