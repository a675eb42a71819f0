#include "serve/text_sites.h"

#include <map>

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
  Recorder recorder(wishes.globs, wishes.writes, site_layers(model.config()), [&](const SiteId&, const Tensor& value) {
    bytes += value.count() * static_cast<std::int64_t>(sizeof(float));
  });
  ThreadPool pool(1);
  DryPass dry(pool, {{0, n, 0}});
  dry.pass().taps = &recorder;
  request(dry.pass(), n, source);
  dry.run(model);
  recorder.check_all_met(true);
  return bytes;
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
    const SiteLayers layers = site_layers(sites->model_.model->config());
    for (std::size_t i = 0; i < texts.ids.size(); ++i) {
      std::vector<SequenceRecorder::Recorded>& values = sites->values_.emplace_back();
      Recorder recorder(sites->wishes_.globs, sites->wishes_.writes, layers,
                        [&](const SiteId& id, const Tensor& value) {
                          values.push_back({name_of(id), value.shape, {value.data, value.data + value.count()}});
                        });
      context.taps = &recorder;
      TextIds one{texts.ids.subspan(i, 1)};
      if (!texts.types.empty()) one.types = texts.types.subspan(i, 1);
      if (!texts.marks.empty()) one.marks = texts.marks.subspan(i, 1);
      inner(context, one, [&](std::size_t, std::span<const float> result) { receive(i, result); });
    }
  };
  return {"", read};
}

Json TextSites::json() const {
  Json list = Json::array();
  for (const auto& values : values_) list.push_back({{"sites", sites_json(values)}});
  return list;
}

}  // namespace vitrine
