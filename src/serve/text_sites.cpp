#include "serve/text_sites.h"

#include <map>

#include "inspect/feature_taps.h"
#include "inspect/probe_values.h"
#include "model/dry_run.h"

namespace vitrine {
namespace {

/// Requests what a reading does, of a text of `n` tokens.
void request(Pass& pass, std::int64_t n, TextSteps::Source source) {
  using Source = TextSteps::Source;
  if (source == Source::rows) pass.receive_hidden = [](const Tensor&) {};
  if (source == Source::outputs) pass.receive_outputs = [](const Tensor&) {};
  if (source != Source::word_logits && source != Source::next_logits) return;
  const bool is_all = source == Source::word_logits;
  pass.logits.rows = is_all ? LogitRequest::Rows::range : LogitRequest::Rows::last_of_segments;
  pass.logits.end = is_all ? n : 0;
  pass.logits.receive = [](std::int64_t, const Tensor&) {};
}

/// The bytes of the selected values of a text of `n` tokens, from a dry run, which also checks names and writes.
std::int64_t bytes_of(const Model& model, const SiteFields& wishes, std::int64_t n, TextSteps::Source source) {
  std::int64_t bytes = 0;
  const SiteLayers layers = site_layers(model.config(), wishes.dictionaries);
  Recorder recorder(wishes.globs, wishes.writes, layers, [&](const SiteId&, const Tensor& value) {
    bytes += value.count() * static_cast<std::int64_t>(sizeof(float));
  });
  ThreadPool pool(1);
  DryPass dry(pool, {{0, n, 0}});
  dry.pass().segments.front().modifiers.dictionaries = wishes.dictionaries;
  dry.pass().taps = &recorder;
  request(dry.pass(), n, source);
  dry.run(model);
  const bool records = wishes.globs != std::vector<std::string>{""};
  records ? recorder.check_all_met(true) : recorder.check_writes_met(true);
  return bytes + feature_bytes(wishes, n);
}

}  // namespace

TextSites::TextSites(const ServedModel& model, const RequestFields& fields, SiteFields wishes,
                     std::span<const std::vector<std::int32_t>> texts, TextSteps::Source source)
    : model_(model), wishes_(std::move(wishes)) {
  if (wishes_.globs.empty()) wishes_.globs = {""};  // nothing, instead of the default set
  std::map<std::size_t, std::int64_t> bytes_of_length;
  std::int64_t bytes = 0;
  with_site_errors(fields, [&] {
    check_has_rows(model.model->config());
    for (const std::vector<std::int32_t>& ids : texts) {
      const auto [at, is_new] = bytes_of_length.try_emplace(ids.size());
      if (is_new) at->second = bytes_of(*model.model, wishes_, std::ssize(ids), source);
      bytes += at->second;
    }
  });
  check_trace_bytes(model, bytes, fields.name_of("sites"));
}

TextReading TextSites::recorded(std::shared_ptr<TextSites> sites, TextReading reading) {
  const auto read = [sites = std::move(sites), inner = std::move(reading.read)](
                        GenerateContext context, const TextIds& texts, const ReceiveVector& receive) {
    const SiteFields& wishes = sites->wishes_;
    const SiteLayers layers = site_layers(sites->model_.model->config(), wishes.dictionaries);
    for (std::size_t i = 0; i < texts.ids.size(); ++i) {
      std::vector<SequenceRecorder::Recorded>& values = sites->values_.emplace_back();
      Recorder recorder(wishes.globs, wishes.writes, layers, [&](const SiteId& id, const Tensor& value) {
        values.push_back({name_of(id), value.shape, {value.data, value.data + value.count()}});
      });
      FeatureRows features(wishes.dictionaries, wishes.top);
      FeatureTaps with_features(features, &recorder);
      context.taps = &recorder;
      if (wishes.top) context.taps = &with_features;
      TextIds one{texts.ids.subspan(i, 1)};
      if (!texts.types.empty()) one.types = texts.types.subspan(i, 1);
      if (!texts.marks.empty()) one.marks = texts.marks.subspan(i, 1);
      inner(context, one, [&](std::size_t, std::span<const float> result) { receive(i, result); });
      if (wishes.top) sites->features_.push_back(features.take());
    }
  };
  return {"", read};
}

Json TextSites::json() const {
  Json list = Json::array();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    list.push_back({{"sites", sites_json(values_[i])}});
    if (Json probes = probe_values_json(values_[i]); !probes.empty()) list.back()["probes"] = std::move(probes);
    if (wishes_.top) list.back()["features"] = features_json(features_[i]);
  }
  return list;
}

}  // namespace vitrine
