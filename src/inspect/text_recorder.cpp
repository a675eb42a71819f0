#include "inspect/text_recorder.h"

#include "base/error.h"
#include "model/dry_run.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kHeaderBytes = 64, kHeaderBytesPerSite = 200;

/// Runs the forward of a text without values. All rows have logits.
void dry_run(const Model& model, Taps& taps, std::int64_t n, AppliedDictionaries dictionaries) {
  ThreadPool pool(1);
  DryPass dry(pool, {{0, n, 0}});
  dry.pass().segments.front().modifiers.dictionaries = dictionaries;
  dry.pass().taps = &taps;
  dry.pass().logits = {LogitRequest::Rows::range, 0, n, {}};
  dry.run(model);
}

/// A recorder in a dry run that also checks its writes: an error in a pass would be one of all its sequences.
class DryTaps : public SequenceTaps {
 public:
  DryTaps(Recorder& recorder, const std::vector<SiteWrite>& writes) : recorder_(recorder), writes_(writes) {}

  bool wants(const SiteId& id) const override { return recorder_.wants(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t>) override {
    for (const SiteWrite& write : writes_) {
      if (!matches(write.glob, id)) continue;
      refuse_write(write, id, true);
      apply(write, id, value, {});
    }
    bytes += value.count() * static_cast<std::int64_t>(sizeof(float));
    return recorder_.visit(pass, id, value);
  }
  std::optional<SiteId> last_wanted() const override { return recorder_.last_wanted(); }

  std::int64_t bytes = 0;

 private:
  Recorder& recorder_;
  const std::vector<SiteWrite>& writes_;
};

}  // namespace

TextRecorder::TextRecorder(const Model& model, std::vector<std::string> globs, std::vector<SiteWrite> writes,
                           std::int64_t n, AppliedDictionaries dictionaries)
    : recorder_(globs, writes, site_layers(model.config(), dictionaries),
                [this](const SiteId& id, const Tensor& value) {
                  recorded_.push_back({name_of(id), value.shape, {value.data, value.data + value.count()}});
                }) {
  check_has_rows(model.config());
  Recorder dry(std::move(globs), writes, site_layers(model.config(), dictionaries), nullptr);
  DryTaps checks(dry, writes);
  SegmentTaps taps({&checks});
  dry_run(model, taps, n, dictionaries);
  dry.check_all_met(true);
  bytes_ = checks.bytes;
}

Tensor TextRecorder::visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t>) {
  return recorder_.visit(pass, id, value);
}

void TextRecorder::visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t row, std::int64_t) {
  recorder_.visit_step(pass, id, value, row * value.row_size(), value.row_size(), {});
}

void TextRecorder::visit_steps(Pass& pass, const SiteId& id, const Tensor& value) {
  recorder_.visit_steps(pass, id, value);
}

const std::vector<SequenceRecorder::Recorded>& TextRecorder::recorded() const {
  recorder_.check_all_met();
  return recorded_;
}

std::int64_t recorded_bytes(const ModelConfig& config, const std::vector<std::string>& globs, std::int64_t n,
                            AppliedDictionaries dictionaries) {
  std::int64_t bytes = 0;
  if (globs.empty()) return bytes;
  Recorder recorder(globs, {}, site_layers(config, dictionaries), [&](const SiteId&, const Tensor& value) {
    bytes += value.count() * static_cast<std::int64_t>(sizeof(float));
  });
  dry_run(shape_model(config), recorder, n, dictionaries);
  return bytes;
}

std::int64_t trace_header_bytes(std::int64_t max_sites) { return kHeaderBytes + max_sites * kHeaderBytesPerSite; }

}  // namespace vitrine
