#include "inspect/edited_runs.h"

#include <algorithm>

#include "generate/score.h"

namespace vitrine {
namespace {

constexpr std::int64_t kRowsPerPass = 512;

bool is_in_head(const SiteId& id) { return info(id.site).place >= SitePlace::final_norm; }

bool is_at(const SiteEdit& edit, SiteId id) {
  id.segment = -1;
  return edit.site == id;
}

/// Applies the changes of run i to the rows of segment i.
class EditTaps : public Taps {
 public:
  /// `frozen`: null if no site is.
  EditTaps(std::span<const Edits> runs, const FrozenValues* frozen) : runs_(runs), frozen_(frozen) {}

  bool wants(const SiteId& id) const override {
    if (is_frozen(id)) return true;
    if (id.segment >= 0) return changes(runs_[static_cast<std::size_t>(id.segment)], id);
    return std::any_of(runs_.begin(), runs_.end(), [&](const Edits& run) { return changes(run, id); });
  }

  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    const Tensor result = pass.tensor(value.shape);
    std::copy_n(value.data, value.count(), result.data);
    if (id.segment >= 0) {
      const auto run = static_cast<std::size_t>(id.segment);
      keep(id, result, pass.segments[run].position);
      apply(runs_[run], id, result, pass.segments[run].position);
      return result;
    }
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const Segment& s = pass.segments[run];
      const bool one_row = is_in_head(id);  // that of the run's logits
      const Tensor own =
          one_row ? result.row_range(static_cast<std::int64_t>(run), 1) : result.row_range(s.first_row, s.length);
      keep(id, own, s.position);
      apply(runs_[run], id, own, s.position);
    }
    return result;
  }

 private:
  bool is_frozen(const SiteId& id) const { return frozen_ != nullptr && frozen_->has(id); }
  void keep(const SiteId& id, const Tensor& own, std::int64_t first) const {
    if (is_frozen(id)) frozen_->copy_to(id, own, first);
  }
  static bool changes(const Edits& run, const SiteId& id) {
    return std::any_of(run.begin(), run.end(), [&](const SiteEdit& edit) { return is_at(edit, id); });
  }
  static void apply(const Edits& run, const SiteId& id, const Tensor& own, std::int64_t first) {
    for (const SiteEdit& edit : run) {
      if (is_at(edit, id)) edit.change(own, first);
    }
  }

  std::span<const Edits> runs_;
  const FrozenValues* frozen_;
};

/// The first layer that a run must compute.
int first_layer(const Edits& run, int n_layers) {
  int first = n_layers - 1;
  for (const SiteEdit& edit : run) {
    if (!is_in_head(edit.site)) first = std::min(first, std::max(0, edit.site.layer));
  }
  return first;
}

}  // namespace

/// Consecutive runs of one pass.
struct EditedRuns::Group {
  std::span<const Edits> runs;
  std::size_t first = 0;  ///< The number of the first run.
  int layer = 0;
};

EditedRuns::EditedRuns(const GenerateContext& context, const Tokens& tokens, std::int64_t position)
    : context_(context), tokens_(tokens), position_(position) {
  const ModelConfig& config = context.model->config();
  if (config.encoder || !tokens.types.empty()) return;
  if (!has_stream(config)) return;
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    if (!can_begin_at(config, i)) return;
  }
  std::vector<SiteId> sites;
  for (int i = 0; i < static_cast<int>(config.n_layers()); ++i) sites.push_back(BlockSite{i}(Site::resid_pre));
  SiteReader reader(sites, [&](Pass&, const SiteId&, const Tensor& value) {
    streams_.emplace_back(value.data, value.data + value.count());
  });
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &reader;
  const auto n = static_cast<std::int64_t>(tokens.ids.size());
  if (!is_bidirectional(config)) {
    cache_.emplace(context.make_cache(n));
    pass.segments.front().cache = &*cache_;
  }
  context.model->forward(pass, tokens);
  if (cache_ && !cache_->holds_all()) cache_.reset();
}

void EditedRuns::freeze(const std::vector<std::string>& globs) {
  frozen_.emplace(context_, tokens_, sites_to_freeze(context_, globs, false));
}

/// Whether the keys and values before the first change are those of the unchanged run: no change of a pattern, whose
/// columns are positions of the whole text.
bool EditedRuns::can_share(const Edits& run) const {
  const auto has_rows = [](const SiteEdit& edit) { return info(edit.site.site).shape.dims().front() == dims::T; };
  return cache_ && std::all_of(run.begin(), run.end(), has_rows);
}

Pass EditedRuns::make_pass(const Group& group, Arena& arena, std::vector<std::int32_t>& ids) {
  Pass pass = text_pass(context_, arena, tokens_);
  const Segment whole = pass.segments.front();
  pass.segments.clear();
  caches_.reserve(std::max(caches_.capacity(), group.runs.size()));
  const std::int64_t d = context_.model->config().width_before(static_cast<std::size_t>(group.layer));
  std::vector<float*> rows;  // of the unchanged stream, one for each row of the pass
  for (std::size_t run = 0; run < group.runs.size(); ++run) {
    Segment segment = whole;
    segment.first_row = static_cast<std::int64_t>(ids.size());
    std::int64_t first = can_share(group.runs[run]) ? position_ : 0;
    for (const SiteEdit& edit : group.runs[run]) first = std::min(first, is_in_head(edit.site) ? first : edit.position);
    if (first > 0) {
      if (run >= caches_.size()) caches_.push_back(context_.make_cache(whole.length));
      caches_[run].copy_from(*cache_);
      first = caches_[run].truncate(first);
      segment.cache = &caches_[run];
      segment.position = first;
      segment.length = whole.length - first;
    } else if (run >= caches_.size() && cache_) {
      caches_.push_back(context_.make_cache(whole.length));  // keeps the numbers of caches and runs equal
    }
    pass.logits.chosen.push_back(segment.first_row + position_ - first);
    pass.segments.push_back(segment);
    ids.insert(ids.end(), tokens_.ids.begin() + first, tokens_.ids.end());
    for (std::int64_t t = first; t < whole.length && !streams_.empty(); ++t) {
      rows.push_back(streams_[static_cast<std::size_t>(group.layer)].data() + t * d);
    }
  }
  pass.logits.rows = LogitRequest::Rows::chosen;
  if (group.layer > 0) {
    const Tensor stream = arena.tensor({static_cast<std::int64_t>(rows.size()), d});
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(rows[i], d, stream.row(static_cast<std::int64_t>(i)));
    pass.start = {group.layer, stream};
  }
  return pass;
}

void EditedRuns::run_group(const Group& group, const ReceiveRun& receive) {
  Arena arena;
  std::vector<std::int32_t> ids;
  Pass pass = make_pass(group, arena, ids);
  pass.logits.receive = [&](std::int64_t row, const Tensor& logits) {
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      receive(group.first + static_cast<std::size_t>(row + i),
              {logits.row(i), static_cast<std::size_t>(logits.row_size())});
    }
  };
  EditTaps taps(group.runs, frozen_ ? &*frozen_ : nullptr);
  pass.taps = &taps;
  Tokens all(ids);
  all.source = tokens_.source;
  context_.model->forward(pass, all);
}

void EditedRuns::run(std::span<const Edits> runs, const ReceiveRun& receive) {
  const int n_layers = static_cast<int>(context_.model->config().n_layers());
  const auto layer_of = [&](std::size_t run) { return streams_.empty() ? 0 : first_layer(runs[run], n_layers); };
  const auto per_pass =
      static_cast<std::size_t>(std::max<std::int64_t>(1, kRowsPerPass / static_cast<std::int64_t>(tokens_.ids.size())));
  for (std::size_t first = 0, last = 0; first < runs.size(); first = last) {
    while (last < runs.size() && last - first < per_pass && layer_of(last) == layer_of(first)) ++last;
    run_group({runs.subspan(first, last - first), first, layer_of(first)}, receive);
  }
}

}  // namespace vitrine
