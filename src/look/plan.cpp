#include <fmt/format.h>

#include <algorithm>

#include "inspect/layout.h"
#include "look/cells.h"
#include "look/figures.h"
#include "look/look.h"
#include "ops/attention_sites.h"

namespace vitrine {
namespace {

constexpr std::int64_t kProgramBytes = 450'000;  // the page's program, its style, and the model in words
constexpr std::int64_t kPieceBytes = 40;         // of a token's text in the index
constexpr std::int64_t kArrayBytes = 200;        // of an array's name, shape and place in the index

std::int64_t in_base64(std::int64_t bytes) { return (bytes + 2) / 3 * 4; }

struct ElementCounts {
  std::int64_t arrays = 0;
  std::int64_t rows = 0;   // of all sites, at one position
  std::int64_t drawn = 0;  // of these, the ones that figures need
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
    ++n.arrays;
    n.rows += all / n_tokens;
    if (is_drawn_row(config, name_of(layout.site))) n.drawn += all / n_tokens;
    if (layout.site.site == AttentionSite::pattern) n.maps += all;
    if (layout.site.site != Site::unembed_out && layout.site.site != Site::logits) n.sites += all;
  };
  for (const LayerGroup& group : layer_groups(config)) {
    for (SiteLayout layout : site_layout(config, group.first())) {
      if (layout.site.layer < 0) continue;
      for (const int layer : group.layers) {
        layout.site.layer = layer;
        add(layout);
      }
    }
  }
  for (const SiteLayout& layout : site_layout(config, 0)) {
    if (layout.site.layer < 0) add(layout);
  }
  return n;
}

/// The operands of the products and sums from which one element of every site of a layer is computed.
std::int64_t operands_of_layer(const ModelConfig& config, std::size_t layer, std::int64_t n_tokens) {
  constexpr std::int64_t kOthers = 100;  // of ops that read a few elements each
  const std::int64_t d = config.d_model;
  std::int64_t n = 6 * d + kOthers;  // norms
  if (const AttendConfig* const heads = heads_of(config, layer)) {
    const AttendConfig& a = *heads;
    n += 3 * 2 * d + 2 * a.n_heads * a.head_dim + 4 * a.head_dim + 5 * n_tokens;
  }
  const auto* const dense = layer < config.blocks.size() ? find<DenseConfig>(config.blocks[layer]) : nullptr;
  return n + 2 * 2 * d + 2 * (dense != nullptr ? dense->d_ff : d);
}

std::int64_t bytes_of_cells(std::int64_t operands, std::int64_t cells) {
  constexpr std::int64_t kOfCell = 900;  // in the index
  return (4 * operands + 2) / 3 * 4 + kOfCell * cells;
}

/// An upper bound on the bytes of the largest cells of all sites.
std::int64_t largest_cells_bytes(const ModelConfig& config, std::int64_t n_tokens) {
  constexpr std::int64_t kSites = 36, kOutside = 12;  // of a layer, outside the layers
  const auto layers = static_cast<std::int64_t>(config.n_layers()), each = static_cast<std::int64_t>(kLargestCells);
  std::int64_t operands = 8 * config.d_model;
  for (std::size_t l = 0; l < config.n_layers(); ++l) operands += operands_of_layer(config, l, n_tokens);
  return bytes_of_cells(each * operands, each * (kSites * layers + kOutside));
}

/// The same of the trail.
std::int64_t trail_bytes(const ModelConfig& config, std::int64_t n_tokens) {
  constexpr std::int64_t kSteps = 20, kOutside = 8;  // in a layer, outside the layers
  const auto layers = static_cast<std::int64_t>(config.n_layers());
  std::int64_t operands = 8 * config.d_model;
  for (std::size_t l = 0; l < config.n_layers(); ++l) operands += operands_of_layer(config, l, n_tokens);
  return bytes_of_cells(operands, kSteps * layers + kOutside);
}

/// Elements of all patterns at the lowest resolution.
std::int64_t coarsest_maps(const ModelConfig& config, std::int64_t n_tokens) {
  const std::int64_t side = std::min(n_tokens, kCoarsestMap);
  std::int64_t n = 0;
  for (std::size_t l = 0; l < config.n_layers(); ++l) {
    if (const AttendConfig* const heads = heads_of(config, l)) n += heads->n_heads * side * side;
  }
  return n;
}

/// Bytes of the arrays of all figures, and of what the index says about them.
std::int64_t figure_bytes(const ModelConfig& config, const LookOptions& options, std::int64_t n_checkpoints) {
  const auto n_tokens = static_cast<std::int64_t>(options.ids.size());
  const auto layers = static_cast<std::int64_t>(config.n_layers());
  const ElementCounts n = count_elements(config, n_tokens);
  std::int64_t heads = 0;  // and the pairs of their rotary positions
  for (std::size_t l = 0; l < config.n_layers(); ++l) {
    const AttendConfig* const own = heads_of(config, l);
    if (own != nullptr) heads += own->n_heads * (8 * 9 + 4 * own->head_dim);
  }
  constexpr std::int64_t kOnce = 120'000;  // surfaces of the MLP, curves, cosines
  constexpr std::int64_t kOfToken = 12 * kLookTop + 60;
  constexpr std::int64_t kOfState = 60 + 24;  // lens and ledger, of a token
  constexpr std::int64_t kOfChange = 24;      // patching and differences, of a token and state
  const std::int64_t runs = options.change.exists() ? 2 : 1, states = 2 * layers + 1;
  const std::int64_t of_run =
      n_tokens * (kOfToken + kOfState * states) + heads + 24 * config.vocab_size + kOnce + 4 * n.drawn;
  const std::int64_t of_checkpoint = n_tokens * 12 * kLookTop + 8 * 8 * layers + heads;
  const std::int64_t values =
      runs * of_run + (runs - 1) * n_tokens * states * kOfChange + n_checkpoints * of_checkpoint;
  const std::int64_t named = std::min(config.vocab_size, runs * n_tokens * (3 * states + kLookTop) + 1000);
  return in_base64(values) + kPieceBytes * named + 3 * runs * kArrayBytes * n.arrays;
}

/// The same of the features of one dictionary.
std::int64_t dictionary_bytes(std::int64_t n_tokens) {
  constexpr auto kOfFeature = static_cast<std::int64_t>(8 + kFeatureLogits * 8);
  constexpr std::int64_t kCount = 12;  // of active features, in the index
  const auto n = n_tokens * static_cast<std::int64_t>(kLookFeatures);
  return in_base64(n * kOfFeature) + n_tokens * kCount + n * static_cast<std::int64_t>(kFeatureLogits) * kPieceBytes +
         5 * kArrayBytes;
}

/// The same of the dashboards of its features.
std::int64_t dashboards_bytes(std::int64_t n_tokens) {
  constexpr auto kContexts = static_cast<std::int64_t>(kDashboardContexts);
  constexpr std::int64_t kOfContext = 12 + kDashboardTokens * 8;
  constexpr std::int64_t kOfFeature = 4 + 8 + 2 * 8 + 32 * 4 + 2 * 8 * kFeatureLogits + kContexts * kOfContext;
  constexpr std::int64_t kNamed = kContexts * kDashboardTokens / 4 + 2 * kFeatureLogits;  // many tokens come again
  const auto n = n_tokens * static_cast<std::int64_t>(kLookFeatures);
  return in_base64(n * kOfFeature) + n * kNamed * kPieceBytes + 11 * kArrayBytes;
}

/// The smallest number of MiB that is enough, as an option.
std::string option_for(std::int64_t bytes) { return fmt::format("--max-size {}M", (bytes >> 20) + 1); }

}  // namespace

const LookPart* LookPlan::part(LookPart::Kind kind) const {
  const auto at = std::find_if(parts.begin(), parts.end(), [&](const LookPart& p) { return p.kind == kind; });
  return at == parts.end() ? nullptr : &*at;
}

LookPlan plan_look(const LookSubject& subject, const LookOptions& options) {
  const ModelConfig& config = subject.context.model->config();
  const std::int64_t n_checkpoints = subject.run ? static_cast<std::int64_t>(subject.run->steps.size()) : 0;
  const bool spells = subject.context.modifiers.empty() && !options.label;
  const auto n_tokens = static_cast<std::int64_t>(options.ids.size());
  const ElementCounts n = count_elements(config, n_tokens);
  const std::int64_t runs = options.change.exists() ? 2 : 1;
  const std::int64_t coarsest = in_base64(runs * coarsest_maps(config, n_tokens));
  // The first part is in every page; a page that is too large even so is refused once its size is known.
  std::int64_t used = kProgramBytes + figure_bytes(config, options, n_checkpoints) +
                      std::ssize(subject.dictionaries) * dictionary_bytes(n_tokens);
  for (const AppliedDictionary& applied : subject.dictionaries) {
    const bool has_index = index_of(subject.feature_indexes, *applied.dictionary) != nullptr;
    if (has_index) used += dashboards_bytes(n_tokens);
  }
  LookPlan plan{{{LookPart::Kind::figures, "the page and its figures", used, true, true, ""}}};
  const auto add = [&](LookPart::Kind kind, const char* what, std::int64_t bytes, std::int64_t reserved = 0) {
    LookPart part{kind, what, bytes, used + bytes + reserved <= options.max_bytes, true, ""};
    if (!part.included) part.option = option_for(used + bytes + reserved);
    if (part.included) used += bytes;
    plan.parts.push_back(part);
  };
  add(LookPart::Kind::rows, "every site at the followed position", in_base64(4 * runs * n.rows), coarsest);
  if (spells) {
    add(LookPart::Kind::trail, "how the predicted logit was made", trail_bytes(config, n_tokens), coarsest);
  }
  add(LookPart::Kind::maps, "all attention maps, exact", in_base64(4 * runs * n.maps));
  LookPart& maps = plan.parts.back();
  if (!maps.included) {
    maps.what = "all attention maps, in 8 bits";
    maps.included = true;
    maps.exact = false;
    maps.bytes = std::clamp(options.max_bytes - used, coarsest, in_base64(runs * n.maps));
    used += maps.bytes;
  }
  if (spells) {
    add(LookPart::Kind::cells, "how the largest values of every site were made", largest_cells_bytes(config, n_tokens));
  }
  if (n_checkpoints > 0) {
    add(LookPart::Kind::run, "all attention maps at every checkpoint, in 8 bits", in_base64(n_checkpoints * n.maps));
  }
  add(LookPart::Kind::sites, "every site at all positions, except logits", in_base64(4 * runs * n.sites));
  return plan;
}

}  // namespace vitrine
