#include "inspect/text_pass.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

Pass text_pass(const GenerateContext& context, Arena& arena, const Tokens& tokens) {
  const std::int64_t max_seq_len = context.model->config().max_seq_len;
  const auto n = static_cast<std::int64_t>(tokens.ids.size());
  if (n == 0) throw BadInput("TEXT", "expected at least one token, got none");
  if (n > max_seq_len) throw BadInput("TEXT", "the text has {} tokens, the model's context is {}", n, max_seq_len);
  context.check_ids(tokens.ids);
  context.check_source(tokens.source);
  Pass pass = context.make_pass(arena, {{0, n, 0, nullptr, tokens.source.empty() ? -1 : 0}});
  if (!tokens.source.empty()) pass.sources = {{0, static_cast<std::int64_t>(tokens.source.size())}};
  context.set_modifiers(pass);
  return pass;
}

bool SiteReader::wants(const SiteId& id) const {
  SiteId own = id;
  own.segment = -1;
  return std::find(sites_.begin(), sites_.end(), own) != sites_.end();
}

Tensor SiteReader::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  receive_(pass, id, value);
  return value;
}

std::optional<SiteId> SiteReader::last_wanted() const {
  return *std::max_element(sites_.begin(), sites_.end(), precedes);
}

std::vector<SiteId> stream_states(const ModelConfig& config, bool sublayers) {
  std::vector<SiteId> states;
  const BlockSite first{0, config.stack()};
  if (!config.layers.empty()) {
    throw Unsupported(name_of(first(Site::resid_pre)), "the layer has no residual stream: it replaces its input");
  }
  if (config.altup && sublayers) {
    throw Unsupported("lens",
                      "between the sublayers of a block only one of the streams has a value (AltUp): "
                      "expected states before and after blocks");
  }
  states.push_back(first(Site::resid_pre));
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const BlockConfig& block = config.blocks[layer];
    for (std::size_t i = 0; i < block.sublayers.size(); ++i) {
      const Sublayer& sublayer = block.sublayers[i];
      const BlockSite at{static_cast<int>(layer), config.stack(), names_of(sublayer).is_cross};
      const SumSites sites = sum_sites(block, i);
      const bool is_last = i + 1 == block.sublayers.size();
      if (!is_last && (!sublayers || !sites.sum)) continue;
      states.push_back(is_last ? BlockSite{at.layer, at.stack}(sublayer.norms.sum ? sites.normalized : *sites.sum)
                               : at(sublayer.norms.sum ? sites.normalized : *sites.sum));
    }
  }
  return states;
}

}  // namespace vitrine
