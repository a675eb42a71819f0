#include "model/task_head.h"

#include "base/error.h"
#include "model/checks.h"
#include "ops/pool.h"
#include "pass/sites.h"

namespace vitrine {
namespace {

constexpr SiteId top(Site site) { return {site, -1, -1}; }

/// The last row of a segment that is not padding; the first if all are, as in transformers.
std::int64_t last_row(const TaskHead& c, const Segment& s, std::span<const std::int32_t> ids) {
  std::int64_t row = s.first_row + s.length - 1;
  if (!c.pad_id) return row;
  while (row > s.first_row && ids[static_cast<std::size_t>(row)] == *c.pad_id) --row;
  return row;
}

}  // namespace

void check(std::string_view where, const TaskHead& c) {
  check_size(where, "labels", c.n_labels());
  if (c.dense) check_size(where, "the head's dense layer", *c.dense);
  check_norm(where, "the head's norm", c.norm);
}

std::vector<std::int64_t> task_rows(const Pass& p, const TaskHead& c, std::span<const std::int32_t> ids) {
  std::vector<std::int64_t> rows;
  for (const Segment& s : p.segments) {
    const bool reads_ids = c.pool == TaskHead::Pool::last && !p.shapes_only;
    rows.push_back(reads_ids ? last_row(c, s, ids) : s.first_row);
  }
  return rows;
}

Tensor run_task_head(Pass& p, const TaskHead& c, const TaskHeadParams& w, const Tensor& rows) {
  Tensor x = rows;
  if (c.pool == TaskHead::Pool::mean) x = mean_of_segments(p, x, p.segments);
  if (c.pool != TaskHead::Pool::none) x = p.tap(top(Site::head_pooled), x);
  if (c.dense) {
    x = linear(p, w.dense, x);
    if (c.activation) x = activate(p, *c.activation, x);
    if (c.norm) x = plain_norm(p, *c.norm, w.norm, x);
    x = p.tap(top(Site::head_dense), x);
  }
  return p.tap(top(Site::head_labels), linear(p, w.out, x));
}

}  // namespace vitrine
