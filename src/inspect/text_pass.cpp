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
  context.set_adapters(pass);
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
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockConfig& block = config.blocks[i];
    const BlockSite at{static_cast<int>(i), config.stack()};
    if (!block.has_attention()) {
      throw Unsupported(name_of(at(Site::resid_pre)), "the layer has no residual stream: it replaces its input");
    }
    const auto sum = [](const SublayerNorms& norms, Site plain, Site normalized) {
      return norms.sum ? normalized : plain;
    };
    if (i == 0) states.push_back(at(Site::resid_pre));
    if (sublayers && block.residual == BlockConfig::Residual::serial) {
      states.push_back(at(sum(block.norms.attn, Site::resid_mid, Site::normalized_resid_mid)));
      if (block.cross_attention) {
        states.push_back(at.of_cross()(sum(block.norms.cross_attn, Site::resid_mid, Site::normalized_resid_mid)));
      }
    }
    states.push_back(at(sum(block.norms.ffn, Site::resid_post, Site::normalized_resid_post)));
  }
  return states;
}

}  // namespace vitrine
