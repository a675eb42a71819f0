// The names that the files of dictionaries have for sites.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/config.h"
#include "pass/sites.h"

namespace vitrine {

/// The name of a module's input or output in transformers, as a site: `model.layers.3.output` is
/// `blocks.3.hook_resid_post`. Nothing for names that are not known.
std::optional<std::string> site_of_module(std::string_view module);

/// The site of a name: vitrine's (TransformerLens's legacy name), or that of TransformerLens 4 (`blocks.3.hook_out`).
/// `in_file`: where `attn.hook_out` and `mlp.hook_out` mean `hook_attn_out` and `hook_mlp_out`, as in
/// TransformerLens 4. Nothing if no model of these layers has it.
std::optional<SiteId> site_named(const ModelConfig& config, std::string_view name, bool in_file);

}  // namespace vitrine
