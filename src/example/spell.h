// The arithmetic of one element, from the inputs of its op.
#pragma once

#include <optional>
#include <string>

#include "example/arithmetic.h"
#include "example/facts.h"

namespace vitrine {

/// Of element `flat` of the value at a site, of a gradient (`grad:NAME`; `input:` and `head:` for the parts of the
/// embedding's), or of a parameter after the update (`new:NAME`). Nothing if the value equals another one, or if the
/// arithmetic is too long.
std::optional<Arithmetic> spell(const Facts& facts, const std::string& section, std::int64_t flat);

// spell() dispatches to these.
std::optional<Arithmetic> spell_value(const Facts& facts, const Seen& value, std::int64_t flat);
std::optional<Arithmetic> spell_gradient(const Facts& facts, const Seen& gradient, std::int64_t flat);
std::optional<Arithmetic> spell_param_gradient(const Facts& facts, const std::string& param, std::int64_t flat);

/// The names of the sites that the sublayers of a block read.
std::string attention_input(const Facts& facts, int layer);
std::string ffn_input(const Facts& facts, int layer);
/// The names of the queries and keys that the scores are computed from.
std::string scored_query(const Facts& facts, int layer);
std::string scored_key(const Facts& facts, int layer);
/// The name of another site of the same layer and expert.
std::string sibling(const SiteId& id, Site site);

/// Σ_i x[x_first + i · x_step] · w[w_first + i · w_step], n terms, without those whose x is exactly 0.
Arithmetic dot(const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w, std::int64_t w_first,
               std::int64_t w_step, std::int64_t n);

}  // namespace vitrine
