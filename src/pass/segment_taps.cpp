#include "pass/segment_taps.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pass/pass.h"

namespace vitrine {
namespace {

bool is_divisible(const SiteId& id) {
  constexpr Site kOfTexts[] = {Site::pooler_out, Site::nsp_out, Site::head_pooled, Site::head_dense, Site::head_labels};
  return std::find(std::begin(kOfTexts), std::end(kOfTexts), id.site) == std::end(kOfTexts);
}

std::vector<std::int64_t> range_from(std::int64_t first, std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// The rows of the pass that the rows of a value belong to, ascending.
std::vector<std::int64_t> rows_of(const Pass& p, const SiteId& id, const Tensor& value) {
  if (info(id.site).has_row_numbers()) {
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < value.rows(); ++i) rows.push_back(static_cast<std::int64_t>(value.data[i]));
    return rows;
  }
  if (p.rows.chosen) return {p.rows.chosen->begin(), p.rows.chosen->begin() + value.rows()};
  return range_from(0, value.rows());
}

}  // namespace

bool SegmentTaps::wants(const SiteId& id) const {
  if (!is_divisible(id)) return false;
  const auto one_wants = [&](const SequenceTaps* taps) { return taps != nullptr && taps->wants(id); };
  if (id.segment >= 0) return one_wants(of_segments_[static_cast<std::size_t>(id.segment)]);
  return std::any_of(of_segments_.begin(), of_segments_.end(), one_wants);
}

Tensor SegmentTaps::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  if (pass.shapes_only) {  // values have no elements: which rows belong to which segment is not known
    for (SequenceTaps* const taps : of_segments_) {
      if (taps != nullptr && taps->wants(id)) taps->visit(pass, id, value, {});
    }
    return value;
  }
  if (id.segment >= 0) {
    const auto at = static_cast<std::size_t>(id.segment);
    const Segment& s = pass.segments[at];
    SiteId own = id;
    own.segment = 0;
    return s.failure ? value : of_segments_[at]->visit(pass, own, value, range_from(s.position, s.length));
  }
  const std::vector<std::int64_t> rows = rows_of(pass, id, value);
  Tensor result = value;
  for (std::size_t i = 0; i < of_segments_.size(); ++i) {
    const Segment& s = pass.segments[i];
    if (of_segments_[i] == nullptr || s.failure || !of_segments_[i]->wants(id)) continue;
    const auto begin = std::lower_bound(rows.begin(), rows.end(), s.first_row);
    const auto end = std::lower_bound(begin, rows.end(), s.first_row + s.length);
    if (begin == end) continue;
    std::vector<std::int64_t> positions(begin, end);
    for (std::int64_t& position : positions) position += s.position - s.first_row;
    Tensor part = value.row_range(begin - rows.begin(), end - begin);
    if (info(id.site).has_row_numbers()) {
      part = pass.tensor(part.shape);
      std::copy(positions.begin(), positions.end(), part.data);
      of_segments_[i]->visit(pass, id, part, positions);
      continue;
    }
    const Tensor changed = of_segments_[i]->visit(pass, id, part, positions);
    if (changed.data == part.data) continue;
    if (result.data == value.data) {
      result = pass.tensor(value.shape);
      std::copy_n(value.data, value.count(), result.data);
    }
    std::copy_n(changed.data, changed.count(), result.row(begin - rows.begin()));
  }
  return result;
}

void SequenceTaps::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t row,
                              std::int64_t position) {
  const ArenaScope scope(pass.arena);
  const Tensor own = value.row_range(row, 1);
  const Tensor changed = visit(pass, id, own, {&position, 1});
  if (changed.data != own.data) std::copy_n(changed.data, changed.count(), own.data);
}

void SegmentTaps::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                             const Tensor&) {
  for (std::size_t i = 0; i < of_segments_.size(); ++i) {
    const Segment& s = pass.segments[i];
    const std::int64_t row = first / std::max<std::int64_t>(count, 1) - s.first_row;
    if (row < 0 || row >= s.length || of_segments_[i] == nullptr || s.failure || !of_segments_[i]->wants(id)) continue;
    of_segments_[i]->visit_step(pass, id, value.row_range(s.first_row, s.length), row, s.position + row);
  }
}

void SegmentTaps::visit_steps(Pass& pass, const SiteId& id, const Tensor& value) {
  for (std::size_t i = 0; i < of_segments_.size(); ++i) {
    const Segment& s = pass.segments[i];
    if (of_segments_[i] == nullptr || s.failure || !of_segments_[i]->wants(id)) continue;
    if (pass.shapes_only) {
      of_segments_[i]->visit(pass, id, value, {});
    } else {
      of_segments_[i]->visit_steps(pass, id, value.row_range(s.first_row, s.length));
    }
  }
}

bool SegmentTaps::wants_sparse(const SiteId& id) const {
  return std::ranges::any_of(of_segments_, [&](const SequenceTaps* t) { return t != nullptr && t->wants_sparse(id); });
}

void SegmentTaps::visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) {
  for (std::size_t i = 0; i < of_segments_.size(); ++i) {
    const Segment& s = pass.segments[i];
    if (of_segments_[i] == nullptr || s.failure || !of_segments_[i]->wants_sparse(id)) continue;
    const auto first = static_cast<std::size_t>(s.first_row), n = static_cast<std::size_t>(s.length);
    of_segments_[i]->visit_sparse(id, std::span(rows.rows).subspan(first, n), range_from(s.position, s.length));
  }
}

std::optional<SiteId> SegmentTaps::last_wanted() const {
  std::optional<SiteId> last = SiteId{};
  for (const SequenceTaps* const taps : of_segments_) {
    if (taps == nullptr) continue;
    const std::optional<SiteId> own = taps->last_wanted();
    if (!own) return {};
    if (precedes(*last, *own)) last = own;
  }
  return last;
}

}  // namespace vitrine
