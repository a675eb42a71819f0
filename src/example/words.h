// What stands beside each matrix: its formula, and the file that computes it.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"
#include "pass/sites.h"

namespace vitrine {

struct SectionWords {
  std::string formula;  ///< As example/formula.h reads it; "": none.
  std::string file;
};

/// Of the value at a site, as a model of this config computes it.
SectionWords words_of(const ModelConfig& config, const SiteId& id);
/// Of its gradient. There is no formula where the value goes on unchanged.
SectionWords gradient_words_of(const ModelConfig& config, const SiteId& id);
/// Of a parameter's gradient.
SectionWords gradient_words_of(const ModelConfig& config, std::string_view param);
/// What a parameter is: "queries: one row a feature of a head".
std::string meaning_of_param(std::string_view param);

}  // namespace vitrine
