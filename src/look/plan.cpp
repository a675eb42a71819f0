#include <fmt/format.h>

#include <algorithm>

#include "inspect/layout.h"
#include "look/cells.h"
#include "look/figures.h"
#include "look/look.h"

namespace vitrine {
namespace {

constexpr std::int64_t kProgramBytes = 450'000;  // the page's program, its style and the index

std::int64_t in_base64(std::int64_t bytes) { return (bytes + 2) / 3 * 4; }

struct ElementCounts {
  std::int64_t rows = 0;   // of all sites, at one position
  std::int64_t maps = 0;   // of all patterns
  std::int64_t sites = 0;  // of all sites but the logits
};

ElementCounts count_elements(const ModelConfig& config, std::int64_t n_tokens) {
  ElementCounts n;
  const auto add = [&](const SiteLayout& layout) {
    std::int64_t all = 1;
    for (const Extent& extent : layout.shape) {
      all *= extent.size + (extent.letter == 'T' || extent.letter == 'S' || extent.letter == 'n' ? n_tokens : 0);
    }
    n.rows += all / n_tokens;
    if (layout.site.site == Site::pattern) n.maps += all;
    if (layout.site.site != Site::unembed_out && layout.site.site != Site::logits) n.sites += all;
  };
  for (const LayerGroup& group : layer_groups(config)) {
    for (const SiteLayout& layout : site_layout(config, group.first())) {
      for (std::int64_t i = 0; i < (layout.site.layer >= 0 ? group.count() : 0); ++i) add(layout);
    }
  }
  for (const SiteLayout& layout : site_layout(config, 0)) {
    if (layout.site.layer < 0) add(layout);
  }
  return n;
}

/// The smallest number of MiB that is enough, as an option.
std::string option_for(std::int64_t bytes) { return fmt::format("--max-size {}M", (bytes >> 20) + 1); }

}  // namespace

const LookPart* LookPlan::part(LookPart::Kind kind) const {
  const auto at = std::find_if(parts.begin(), parts.end(), [&](const LookPart& p) { return p.kind == kind; });
  return at == parts.end() ? nullptr : &*at;
}

LookPlan plan_look(const ModelConfig& config, const LookOptions& options, std::int64_t n_checkpoints) {
  const auto n_tokens = static_cast<std::int64_t>(options.ids.size());
  const ElementCounts n = count_elements(config, n_tokens);
  const auto layers = static_cast<std::int64_t>(config.blocks.size());
  const std::int64_t runs = options.change.exists() ? 2 : 1;
  const std::int64_t small =
      runs * (n_tokens * (kLookTop * 12 + 40) + layers * n_tokens * 160 + config.vocab_size * 24 + 120'000) +
      n_checkpoints * (n_tokens * kLookTop * 12 + layers * 500);
  LookPlan plan;
  std::int64_t used = 0;
  const auto add = [&](LookPart::Kind kind, const char* what, std::int64_t bytes, bool always) {
    LookPart part{kind, what, bytes, always || used + bytes <= options.max_bytes, true, ""};
    if (!part.included) part.option = option_for(used + bytes);
    if (part.included) used += bytes;
    plan.parts.push_back(part);
  };
  add(LookPart::Kind::figures, "the page and its figures", kProgramBytes + in_base64(small), true);
  add(LookPart::Kind::rows, "every site at the followed position", in_base64(4 * runs * n.rows), true);
  add(LookPart::Kind::maps, "all attention maps, exact", in_base64(4 * runs * n.maps), false);
  LookPart& maps = plan.parts.back();
  if (!maps.included) {
    maps.what = "all attention maps, in 8 bits";
    maps.included = true;
    maps.exact = false;
    maps.bytes = std::min(in_base64(runs * n.maps / 2), std::max<std::int64_t>(options.max_bytes - used, 0));
    used += maps.bytes;
  }
  add(LookPart::Kind::trail, "how the predicted logit was made", in_base64(trail_bytes(config)), false);
  add(LookPart::Kind::cells, "how the largest values of every site were made", in_base64(largest_cells_bytes(config)),
      false);
  if (n_checkpoints > 0) {
    add(LookPart::Kind::run, "all attention maps at every checkpoint, in 8 bits", in_base64(n_checkpoints * n.maps),
        false);
  }
  add(LookPart::Kind::sites, "every site at all positions, except logits", in_base64(4 * runs * n.sites), false);
  return plan;
}

}  // namespace vitrine
