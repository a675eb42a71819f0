// The formula of each matrix, and the source file that computes it.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"
#include "pass/sites.h"

namespace vitrine {

struct SectionWords {
  std::string formula;  ///< In the notation of example/formula.h; may be empty.
  std::string file;
};

/// Of the value at a site of a model with this config.
SectionWords words_of(const ModelConfig& config, const SiteId& id);
/// Of its gradient. The formula is empty if the gradient passes unchanged.
SectionWords gradient_words_of(const ModelConfig& config, const SiteId& id);
/// Of a parameter's gradient.
SectionWords gradient_words_of(const ModelConfig& config, std::string_view param);
/// The purpose of a parameter: "query projection".
std::string meaning_of_param(std::string_view param);

}  // namespace vitrine
