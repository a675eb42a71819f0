// The arithmetic of one element, from the numbers that its op read.
#pragma once

#include <optional>
#include <string>

#include "example/arithmetic.h"
#include "example/facts.h"

namespace vitrine {

/// Element `flat` of the value at a site, of a gradient (`grad:NAME`, `input:`, `head:` of the embedding's two ends) or
/// of a parameter after the update (`new:NAME`). Nothing where the value is one that stands somewhere else already, or
/// where its arithmetic is more than a line.
std::optional<Arithmetic> spell(const Facts& facts, const std::string& section, std::int64_t flat);

// By part; spell() chooses.
std::optional<Arithmetic> spell_value(const Facts& facts, const Seen& value, std::int64_t flat);
std::optional<Arithmetic> spell_gradient(const Facts& facts, const Seen& gradient, std::int64_t flat);
std::optional<Arithmetic> spell_param_gradient(const Facts& facts, const std::string& param, std::int64_t flat);

/// Which values the sublayers of a block read: names of sites.
std::string attention_input(const Facts& facts, int layer);
std::string ffn_input(const Facts& facts, int layer);
/// The queries and keys that scores are made of.
std::string scored_query(const Facts& facts, int layer);
std::string scored_key(const Facts& facts, int layer);
/// The name of a site of the same layer and expert.
std::string beside(const SiteId& id, Site site);

/// Σ_i x[x_first + i · x_step] · w[w_first + i · w_step], n terms; those with a factor of exactly 0 in x are left out
/// where there are others.
Arithmetic dot(const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w, std::int64_t w_first,
               std::int64_t w_step, std::int64_t n);

}  // namespace vitrine
