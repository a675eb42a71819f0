#include "train/tapped_step.h"

#include <algorithm>
#include <filesystem>

namespace vitrine {
namespace {

constexpr std::int64_t kHeaderBytesPerSite = 400;  // and its gradient

}  // namespace

TappedStep::TappedStep(const LogOptions& options, const ModelConfig& model, bool looks, const std::string& path)
    : looks_(looks) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : options.writes) writes.push_back(parse_site_write(text));
  const auto add = [this](const std::string& name, const Tensor& value) {
    if (!writer_ || std::find(written_.begin(), written_.end(), name) != written_.end()) return;
    writer_->add(name, value);
    written_.push_back(name);
  };
  const auto name = [](const SiteId& id) {
    return name_of(id) + (id.segment > 0 ? "." + std::to_string(id.segment) : "");
  };
  const std::vector<std::string> globs = looks ? options.taps : std::vector<std::string>{""};
  recorder_.emplace(
      globs, writes, static_cast<int>(model.blocks.size()),
      [=](const SiteId& id, const Tensor& value) { add(name(id), value); }, static_cast<int>(most_experts(model)));
  if (path.empty()) return;
  recorder_->receive_gradients([=](const SiteId& id, const Tensor& value) { add(name(id) + "_grad", value); });
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  constexpr std::int64_t kSegments = 64;  // strips come once for each
  writer_.emplace(path, 64 + recorder_->most_sites() * kHeaderBytesPerSite * kSegments);
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
