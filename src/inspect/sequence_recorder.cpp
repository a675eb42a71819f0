#include "inspect/sequence_recorder.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "inspect/site_write.h"
#include "model/dry_run.h"
#include "model/mixers/experts/sites.h"
#include "ops/attention_sites.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kAnyPosition[] = {0};

bool is_strip(const SiteId& id) {
  return id.site == AttentionSite::scores_raw || id.site == AttentionSite::scores || id.site == AttentionSite::pattern;
}

/// Whether a row has an element for each token of the pass.
bool is_of_one_pass(const SiteId& id) {
  const std::span<const Dim> dims = info(id).shape.dims();
  return dims.size() > 1 && dims.front() == dims::T && dims.back() == dims::T;
}

/// What a row of scores or of a pattern has at positions after the query's.
float hidden_value(const SiteId& id) {
  return id.site == AttentionSite::pattern ? 0.0f : -std::numeric_limits<float>::infinity();
}

std::vector<std::string> globs_or_none(std::vector<std::string> globs) {
  if (globs.empty()) globs.emplace_back("");  // none, not the default set
  return globs;
}

/// `[n, …]` instead of the first size of a shape.
Shape with_rows(std::int64_t n, const Shape& shape) {
  if (shape.rank() == 1) return {n};
  if (shape.rank() == 4) return {n, shape[1], shape[2], shape[3]};
  return shape.rank() == 2 ? Shape{n, shape[1]} : Shape{n, shape[1], shape[2]};
}

}  // namespace

void refuse_write(const SiteWrite& write, const SiteId& id, bool knows_end) {
  const auto refuse = [&](std::string_view why) {
    throw BadInput("--set", "{}: {}: {}", write.text, name_of(id), why);
  };
  if (write.file != nullptr) refuse("values of a file cannot be written");
  if (id.site == Site::tokens || id.site == ExpertSite::expert_indices || id.site == ExpertSite::expert_tokens) {
    refuse("ids and the choice of experts cannot be written");
  }
  const std::span<const Dim> dims = info(id).shape.dims();
  for (std::size_t i = 0; i < std::min(dims.size(), write.index.size()); ++i) {
    const SiteWrite::Range& range = write.index[i];
    const bool is_token = dims[i] == dims::T || dims[i] == dims::S;
    if (range.whole || (!is_token && dims[i] != dims::n)) continue;
    if (dims[i] == dims::n) refuse("the tokens of an expert are written all or not at all");
    if (knows_end) continue;
    if (range.begin < 0 || range.end < 0) refuse("a text that is being generated has no last token to count from");
    if (!range.open_end && range.begin >= range.end) refuse("the range of tokens is empty");
  }
}

void check_has_rows(const ModelConfig& config) {
  if (!has_sequence_rows(config)) {
    throw Unsupported("sites", "the model has an encoder or recurrent layers: read its sites by a trace of the text");
  }
}

bool SequenceRecorder::Precedes::operator()(const SiteId& a, const SiteId& b) const {
  if (precedes(a, b) || precedes(b, a)) return precedes(a, b);
  return a.expert < b.expert;
}

SequenceRecorder::SequenceRecorder(const Model& model, std::vector<std::string> globs, std::vector<SiteWrite> writes,
                                   AppliedDictionaries dictionaries)
    : globs_(std::move(globs)),
      writes_(std::move(writes)),
      selection_(globs_or_none(globs_), site_layers(model.config(), dictionaries)),
      written_(globs_of(writes_), site_layers(model.config(), dictionaries)),
      last_(SiteId{}),
      glob_met_(globs_.size()),
      write_met_(writes_.size()) {
  for (const std::optional<SiteId>& last : {selection_.last(), written_.last()}) {
    if (last && precedes(*last_, *last)) last_ = *last;
  }
  check(model, dictionaries);
}

/// Finds what is wrong before the first pass, which has rows of other sequences too.
void SequenceRecorder::check(const Model& model, AppliedDictionaries dictionaries) {
  check_has_rows(model.config());
  ThreadPool pool(1);
  DryPass dry(pool, {{0, 1, 0}});
  SegmentTaps taps({this});
  dry.pass().taps = &taps;
  dry.pass().segments.front().modifiers.dictionaries = dictionaries;
  dry.pass().logits = {LogitRequest::Rows::range, 0, 1, {}};
  dry.run(model);
  const auto names_expert = [](const std::string& glob) { return glob.find("experts.") != std::string::npos; };
  for (std::size_t i = 0; i < globs_.size(); ++i) {
    if (glob_met_[i] || names_expert(globs_[i])) continue;
    if (matches(globs_[i], {Site::loss})) {
      throw BadInput("--sites", "{}: the loss is not computed while a text is generated", name_of({Site::loss}));
    }
    throw BadInput("--sites", "no site of this model matches {}{}", globs_[i], selection_.nearest_to(globs_[i]));
  }
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (write_met_[i] || names_expert(writes_[i].glob)) continue;
    throw BadInput("--set", "{}: no site of this model matches {}{}", writes_[i].text, writes_[i].glob,
                   selection_.nearest_to(writes_[i].glob));
  }
}

/// The numbers of the writes that change a site. There may be as many as the model has dimensions.
const std::vector<std::size_t>& SequenceRecorder::writes_at(const SiteId& id) {
  const auto [at, is_new] = writes_at_.try_emplace(id);
  bool is_match = false;
  for (std::size_t i = 0; is_new && i < writes_.size(); ++i) {
    if (i == 0 || writes_[i].glob != writes_[i - 1].glob) is_match = matches(writes_[i].glob, id);
    if (is_match) at->second.push_back(i);
  }
  return at->second;
}

Tensor SequenceRecorder::visit(Pass& pass, const SiteId& id, const Tensor& value,
                               std::span<const std::int64_t> positions) {
  Tensor result = value;
  for (const std::size_t i : writes_at(id)) {
    write_met_[i] = true;
    if (pass.shapes_only) {
      refuse_write(writes_[i], id, false);
      apply(writes_[i], id, value, {.positions = kAnyPosition});
      continue;
    }
    if (result.data == value.data) {
      result = pass.tensor(value.shape);
      std::copy_n(value.data, value.count(), result.data);
    }
    apply(writes_[i], id, result, {.count = result.count(), .positions = positions});
  }
  if (selection_.contains(id)) {
    for (std::size_t i = 0; i < globs_.size(); ++i) glob_met_[i] = glob_met_[i] || matches(globs_[i], id);
    if (pass.shapes_only && id.site == AttentionSite::scores_raw) {
      throw BadInput("--sites", "{}: the scores of later positions are not computed while a text is generated",
                     name_of(id));
    }
    if (pass.shapes_only && is_of_one_pass(id)) {
      throw BadInput("--sites", "{}: it has a column for each token, and a text is generated in several passes",
                     name_of(id));
    }
    if (!pass.shapes_only) record(id, result, positions);
  }
  return result;
}

/// Appends the rows of positions that have not been seen. Those that are fed again have the same values.
void SequenceRecorder::record(const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions) {
  Rows& all = recorded_[id];
  all.of_one_pass = value.shape;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < all.next) continue;
    all.next = positions[i] + 1;
    ++all.n;
    const auto row = static_cast<std::int64_t>(i);
    if (!is_strip(id)) {
      all.values.insert(all.values.end(), value.row(row), value.row(row) + value.row_size());
      continue;
    }
    const std::int64_t n_positions = value.shape[2];
    all.n_positions.push_back(n_positions);
    for (std::int64_t head = 0; head < value.shape[0]; ++head) {
      const float* const strip = value.row(head) + row * n_positions;
      all.values.insert(all.values.end(), strip, strip + n_positions);
    }
  }
}

std::vector<SequenceRecorder::Recorded> SequenceRecorder::recorded() const {
  std::vector<Recorded> result;
  for (const auto& [id, rows] : recorded_) {
    if (!is_strip(id)) {
      result.push_back({name_of(id), with_rows(rows.n, rows.of_one_pass), rows.values});
      continue;
    }
    const std::int64_t n_heads = rows.of_one_pass[0], n = rows.n;
    Recorded strips{name_of(id), {n_heads, n, n}, {}};
    strips.values.assign(static_cast<std::size_t>(n_heads * n * n), hidden_value(id));
    auto from = rows.values.begin();
    for (std::int64_t t = 0; t < n; ++t) {
      const std::int64_t width = rows.n_positions[static_cast<std::size_t>(t)];
      for (std::int64_t head = 0; head < n_heads; ++head, from += width) {
        std::copy_n(from, std::min(width, n), strips.values.begin() + (head * n + t) * n);
      }
    }
    result.push_back(std::move(strips));
  }
  return result;
}

}  // namespace vitrine
