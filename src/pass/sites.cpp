#include "pass/sites.h"

#include <limits>
#include <string_view>
#include <tuple>

#include "pass/dictionary_sites.h"

namespace vitrine {

std::string to_string(const SiteShape& shape) {
  std::string text;
  for (const Dim dim : shape.dims()) text += (text.empty() ? "[" : ", ") + std::string(dim.name);
  return text + "]";
}

bool operator<(Site a, Site b) {
  const auto place = [](Site site) { return std::tuple(site.info().place, site.table().name, site.row()); };
  return place(a) < place(b);
}

bool precedes(const SiteId& a, const SiteId& b) {
  // Within a layer cross-attention follows attention, and precedes the MLP.
  const auto part = [](const SiteId& id) { return id.cross ? 1 : info(id.site).place <= SitePlace::middle ? 0 : 2; };
  const auto place = [&](const SiteId& id) {
    const bool after_blocks = info(id.site).place > SitePlace::block_output;
    const std::string_view dictionary = id.dictionary != nullptr ? std::string_view(*id.dictionary) : "";
    return std::tuple(id.stack != Stack::encoder, after_blocks ? std::numeric_limits<int>::max() : id.layer, part(id),
                      id.site, id.dictionary != nullptr, dictionary, id.value);
  };
  return place(a) < place(b);
}

namespace {

/// `cross_attn.hook_q` for `attn.hook_q`, `ln2.hook_scale` for `ln1.hook_scale`.
std::string name_in_cross_attention(std::string_view name) {
  const auto after = [&](std::string_view prefix) { return std::string(name.substr(prefix.size())); };
  if (name.starts_with("attn.")) return "cross_" + std::string(name);
  if (name.starts_with("ln1")) return "ln2" + after("ln1");
  if (name.starts_with("hook_attn_")) return "hook_cross_attn_" + after("hook_attn_");
  if (name.ends_with("resid_mid")) return std::string(name) + "_cross";
  return std::string(name);
}

}  // namespace

const SiteInfo& info(const SiteId& id) {
  if (id.dictionary == nullptr) return info(id.site);
  return id.value == kProbeValue ? kProbeSite : kDictionarySites[static_cast<std::size_t>(id.value)];
}

std::string name_of(const SiteId& id) {
  if (id.dictionary != nullptr && id.value == kProbeValue) return "probe." + *id.dictionary;
  if (id.dictionary != nullptr) {
    const std::string name = id.dictionary->empty() ? "" : *id.dictionary + ".";
    return name_of(id.without_dictionary()) + "." + name + std::string(info(id).name);
  }
  constexpr std::string_view kPrefixes[] = {"blocks.", "encoder.", "decoder."};
  const SiteInfo& site = info(id.site);
  const std::string_view prefix = kPrefixes[static_cast<std::size_t>(id.stack)];
  if (!site.in_block()) return (id.stack == Stack::only ? "" : std::string(prefix)) + std::string(site.name);
  std::string name = std::string(prefix) + std::to_string(id.layer) + ".";
  name += id.cross ? name_in_cross_attention(site.name) : std::string(site.name);
  if (const std::size_t at = name.find("{m}"); at != std::string::npos) {
    return name.replace(at, 3, id.stack == Stack::decoder ? "3" : "2");
  }
  const std::size_t at = name.find("{e}");
  if (at == std::string::npos) return name;
  const std::string expert = id.expert == SiteId::kNoExpert ? "E"
                             : id.expert == SiteId::kShared ? "shared"
                                                            : std::to_string(id.expert);
  return name.substr(0, at) + expert + name.substr(at + 3);
}

}  // namespace vitrine
