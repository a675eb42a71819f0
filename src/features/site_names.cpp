#include "features/site_names.h"

#include "base/text.h"
#include "model/sites.h"

namespace vitrine {
namespace {

struct Alias {
  std::string_view name, site;
  bool only_in_files = false;
};

constexpr Alias kBlockAliases[] = {
    {"hook_in", "hook_resid_pre"},   {"hook_out", "hook_resid_post"},          {"ln2.hook_in", "hook_resid_mid"},
    {"mlp.hook_in", "ln2.hook_out"}, {"attn.hook_out", "hook_attn_out", true}, {"mlp.hook_out", "hook_mlp_out", true},
};

constexpr Alias kModules[] = {
    {"output", "hook_resid_post"},
    {"self_attn.o_proj.input", "attn.hook_z"},
    {"pre_feedforward_layernorm.output", "ln2.hook_out"},
    {"post_feedforward_layernorm.output", "hook_mlp_out"},
};

/// `blocks.` of `blocks.3.hook_out`, 3 and `hook_out`.
struct InBlock {
  std::string_view stack, rest;
  int layer = 0;
};

std::optional<InBlock> in_block(std::string_view name) {
  for (const std::string_view stack : {"blocks.", "encoder.", "decoder."}) {
    if (!name.starts_with(stack)) continue;
    const std::string_view after = name.substr(stack.size());
    const std::size_t dot = after.find('.');
    const auto layer = number_in<int>(after.substr(0, dot));
    if (dot != after.npos && layer && *layer >= 0) return InBlock{stack, after.substr(dot + 1), *layer};
  }
  return {};
}

std::optional<SiteId> exact(const ModelConfig& config, std::string_view name) {
  const std::optional<InBlock> own = in_block(name);
  const auto matches = [&](const SiteId& id) { return name_of(id) == name; };
  std::vector<Stack> stacks = {config.stack()};
  if (config.encoder) stacks.push_back(Stack::encoder);
  for (const Site site : all_sites()) {
    if (info(site).in_block() != own.has_value() || info(site).in_expert() || info(site).in_head()) continue;
    for (const Stack stack : stacks) {
      const BlockSite at{own ? own->layer : -1, stack};
      if (matches(at(site))) return at(site);
      if (stack == Stack::decoder && in_cross_attention(site) && matches(at.of_cross()(site))) {
        return at.of_cross()(site);
      }
    }
  }
  return {};
}

std::optional<std::string> without_alias(std::string_view name, bool in_file) {
  if (name == "embed.hook_out") return "hook_embed";
  const std::optional<InBlock> own = in_block(name);
  for (const Alias& alias : kBlockAliases) {
    if (!own || own->rest != alias.name || (alias.only_in_files && !in_file)) continue;
    return std::string(own->stack) + std::to_string(own->layer) + "." + std::string(alias.site);
  }
  return {};
}

}  // namespace

std::optional<std::string> site_of_module(std::string_view module) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = module.find(kLayers);
  if (at == module.npos) return {};
  const std::string_view after = module.substr(at + kLayers.size());
  const std::size_t dot = after.find('.');
  const auto layer = number_in<int>(after.substr(0, dot));
  for (const Alias& alias : kModules) {
    const bool fits = dot != after.npos && layer && *layer >= 0 && after.substr(dot + 1) == alias.name;
    if (fits) return "blocks." + std::to_string(*layer) + "." + std::string(alias.site);
  }
  return {};
}

std::optional<SiteId> site_named(const ModelConfig& config, std::string_view name, bool in_file) {
  const std::optional<std::string> known = without_alias(name, in_file);
  if (known && in_file) return exact(config, *known);
  if (const auto found = exact(config, name)) return found;
  return known ? exact(config, *known) : std::nullopt;
}

}  // namespace vitrine
