#include "train/tapped_step.h"

#include <filesystem>

#include "ops/attention_sites.h"

namespace vitrine {
namespace {

constexpr std::int64_t kHeaderBytesPerSite = 400;  // of the value and its gradient

/// The most values that the recorder can receive in a pass. It receives the strips of attention once per segment.
std::int64_t max_values(const Recorder& recorder, const ModelConfig& model, std::int64_t n_segments) {
  std::int64_t strips = 0;
  const auto count = [&](BlockSite at, std::size_t n_layers) {
    for (at.layer = 0; at.layer < static_cast<int>(n_layers); ++at.layer) {
      for (const Site site : {AttentionSite::scores_raw, AttentionSite::scores, AttentionSite::pattern})
        strips += recorder.wants(at(site)) ? 1 : 0;
    }
  };
  count({0, model.stack()}, model.n_layers());
  if (model.encoder) count({0, Stack::encoder}, model.encoder->n_layers());
  if (model.encoder) count({0, Stack::decoder, true}, model.n_layers());
  return recorder.max_sites() + strips * (n_segments - 1);
}

}  // namespace

TappedStep::TappedStep(const LogOptions& options, const ModelConfig& model, bool looks, const std::string& path,
                       std::int64_t n_segments)
    : looks_(looks) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : options.writes) writes.push_back(parse_site_write(text));
  const auto add = [this](const std::string& name, const Tensor& value) {
    if (writer_ && written_.insert(name).second) writer_->add(name, value);
  };
  const auto name = [](const SiteId& id) {
    return name_of(id) + (id.segment > 0 ? "." + std::to_string(id.segment) : "");
  };
  const std::vector<std::string> globs = looks ? options.taps : std::vector<std::string>{""};
  recorder_.emplace(globs, writes, site_layers(model),
                    [=](const SiteId& id, const Tensor& value) { add(name(id), value); });
  writes_.emplace(std::vector<std::string>{""}, writes, site_layers(model), Recorder::Receive{});
  if (path.empty()) return;
  recorder_->receive_gradients([=](const SiteId& id, const Tensor& value) { add(name(id) + "_grad", value); });
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  writer_.emplace(path, 64 + max_values(*recorder_, model, n_segments) * kHeaderBytesPerSite);
}

void TappedStep::commit() {
  if (looks_) {
    recorder_->check_all_met();
  } else {
    recorder_->check_writes_met();
  }
  if (writer_) writer_->commit();
}

}  // namespace vitrine
