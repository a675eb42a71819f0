#include "inspect/edited_runs.h"

#include <algorithm>

namespace vitrine {
namespace {

constexpr std::int64_t kRowsPerPass = 512;

/// Applies the edits of run i to the rows of segment i.
class EditTaps : public Taps {
 public:
  explicit EditTaps(std::span<const Edits> runs) : runs_(runs) {}

  bool wants(const SiteId& id) const override {
    if (id.segment >= 0) return changes(static_cast<std::size_t>(id.segment), id);
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (changes(run, id)) return true;
    }
    return false;
  }

  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    const Tensor result = pass.tensor(value.shape);
    std::copy_n(value.data, value.count(), result.data);
    if (id.segment >= 0) {
      apply(static_cast<std::size_t>(id.segment), id, result);
      return result;
    }
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const Segment& s = pass.segments[run];
      // Values of the head have one row for each run.
      const bool has_chosen_rows = result.rows() == static_cast<std::int64_t>(runs_.size()) && after_blocks(id);
      const auto i = static_cast<std::int64_t>(run);
      apply(run, id, has_chosen_rows ? result.row_range(i, 1) : result.row_range(s.first_row, s.length));
    }
    return result;
  }

 private:
  static bool after_blocks(const SiteId& id) { return !info(id.site).in_block && id.site >= Site::final_scale; }
  static bool is_at(const SiteEdit& edit, SiteId id) {
    id.segment = -1;
    return edit.site == id;
  }
  bool changes(std::size_t run, const SiteId& id) const {
    return std::any_of(runs_[run].begin(), runs_[run].end(), [&](const SiteEdit& edit) { return is_at(edit, id); });
  }
  void apply(std::size_t run, const SiteId& id, const Tensor& own) const {
    for (const SiteEdit& edit : runs_[run]) {
      if (is_at(edit, id)) edit.change(own);
    }
  }

  std::span<const Edits> runs_;
};

/// The runs of one pass.
void run_pass(const GenerateContext& context, Arena& arena, const Tokens& tokens, std::int64_t position,
              std::span<const Edits> runs, std::size_t first, const ReceiveRun& receive) {
  Pass pass = text_pass(context, arena, tokens);
  const Segment one = pass.segments.front();
  std::vector<std::int32_t> ids;
  pass.segments.clear();
  for (std::size_t run = 0; run < runs.size(); ++run) {
    Segment segment = one;
    segment.first_row = static_cast<std::int64_t>(ids.size());
    pass.logits.chosen.push_back(segment.first_row + position);
    pass.segments.push_back(segment);
    ids.insert(ids.end(), tokens.ids.begin(), tokens.ids.end());
  }
  pass.logits.rows = LogitRequest::Rows::chosen;
  pass.logits.receive = [&](std::int64_t row, const Tensor& logits) {
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      receive(first + static_cast<std::size_t>(row + i), {logits.row(i), static_cast<std::size_t>(logits.row_size())});
    }
  };
  EditTaps taps(runs);
  pass.taps = &taps;
  Tokens all(ids);
  all.source = tokens.source;
  context.model->forward(pass, all);
}

}  // namespace

void run_edited(const GenerateContext& context, const Tokens& tokens, std::int64_t position,
                std::span<const Edits> runs, const ReceiveRun& receive) {
  const auto n = std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens.ids.size()));
  const auto per_pass = static_cast<std::size_t>(std::max<std::int64_t>(1, kRowsPerPass / n));
  for (std::size_t first = 0; first < runs.size(); first += per_pass) {
    Arena arena;
    run_pass(context, arena, tokens, position, runs.subspan(first, std::min(per_pass, runs.size() - first)), first,
             receive);
  }
}

}  // namespace vitrine
