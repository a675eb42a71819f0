#include "serve/request_taps.h"

#include <algorithm>
#include <map>

#include "inspect/text_recorder.h"

namespace vitrine {
namespace {

/// The number of tokens of a sequence that are fed. The last one that is generated is not.
std::int64_t max_fed(const ServedModel& model, const GenerateRequest& sequence) {
  const std::int64_t n_prompt = std::ssize(sequence.prompt);
  return std::min(model.max_seq_len, n_prompt + std::max<std::int64_t>(0, sequence.max_tokens - 1));
}

}  // namespace

void add_taps(const ServedModel& model, const SiteFields& sites, CompletionRequest& request) {
  request.reports_ids = true;
  if (sites.empty()) return;
  const Json none = Json::object();
  const RequestFields fields(none, "vitrine");
  const SequenceRecorder recorder = with_site_errors(
      fields, [&] { return SequenceRecorder(*model.model, sites.globs, sites.writes, sites.dictionaries); });
  std::map<std::int64_t, std::int64_t> bytes_of;  // by the number of tokens
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < request.n_sequences(); ++i) {
    const std::int64_t n = max_fed(model, request.sequence(i, model.defaults));
    const auto [at, is_new] = bytes_of.try_emplace(n);
    if (is_new) {
      at->second = recorded_bytes(model.model->config(), sites.globs, n, sites.dictionaries) + feature_bytes(sites, n);
    }
    check_trace_bytes(model, bytes += at->second, sites.globs.empty() ? "vitrine.features" : "vitrine.sites");
  }
  for (std::size_t i = 0; i < request.n_sequences(); ++i) {
    request.recorders.push_back(std::make_shared<SequenceRecorder>(recorder));
    if (!sites.top) continue;
    request.features.push_back(
        std::make_shared<SequenceFeatures>(FeatureRows(sites.dictionaries, sites.top), request.recorders.back()));
  }
}

}  // namespace vitrine
