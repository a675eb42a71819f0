#include "inspect/recorder.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "model/sites.h"
#include "ops/op_kind.h"
#include "pass/dictionary_sites.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

bool names_experts(const std::string& glob) { return glob.find("experts.") != std::string::npos; }

}  // namespace

SiteLayers site_layers(const ModelConfig& config, AppliedDictionaries dictionaries) {
  SiteLayers layers{static_cast<int>(config.n_layers()),
                    static_cast<int>(max_experts(config)),
                    config.encoder ? static_cast<int>(config.encoder->n_layers()) : -1,
                    {}};
  for (const AppliedDictionary& applied : dictionaries) {
    for (const SiteId& id : sites_of(*applied.dictionary)) layers.of_dictionaries.push_back(id);
  }
  return layers;
}

SiteSelection::SiteSelection(std::vector<std::string> globs, const SiteLayers& layers)
    : globs_(std::move(globs)), layers_(layers) {
  for (const Site site : all_sites()) {
    const auto may = [&](const std::string& glob) { return may_match(glob, site); };
    candidates_.push_back(globs_.empty() || std::any_of(globs_.begin(), globs_.end(), may));
  }
}

/// Calls visit(site) for every one of these sites that the model may have, in no particular order.
template <class Visit>
void SiteSelection::for_each(const Sites& sites, Visit&& visit) const {
  const bool has_encoder = layers_.n_encoder_layers >= 0;
  const Stack own = has_encoder ? Stack::decoder : Stack::only;
  const auto visit_layer = [&](Site site, BlockSite at) {
    if (!info(site).in_expert()) visit(at(site));
    if (at.stack == Stack::decoder && in_cross_attention(site)) visit(at.of_cross()(site));
    if (!info(site).in_expert() || layers_.n_experts == 0) return;
    visit(at.of_expert(site, SiteId::kShared));
    for (int e = 0; e < layers_.n_experts; ++e) visit(at.of_expert(site, e));
  };
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (!sites[i]) continue;
    const Site site = all_sites()[i];
    if (!info(site).in_block()) {
      visit(BlockSite{-1, info(site).in_head() ? Stack::only : own}(site));
      if (has_encoder && !info(site).in_head()) visit(BlockSite{-1, Stack::encoder}(site));
      continue;
    }
    for (int layer = 0; layer < layers_.n_layers; ++layer) visit_layer(site, {layer, own});
    for (int layer = 0; layer < layers_.n_encoder_layers; ++layer) visit_layer(site, {layer, Stack::encoder});
  }
}

std::size_t SiteSelection::index(const SiteId& id) {
  const auto part = 2 * static_cast<std::size_t>(id.stack) + static_cast<std::size_t>(id.cross);
  return (static_cast<std::size_t>(id.layer + 1) * 6 + part) * all_sites().size() + number_of(id.site);
}

bool SiteSelection::is_chosen(const SiteId& id) const {
  if (globs_.empty()) return !info(id).on_demand;
  return std::any_of(globs_.begin(), globs_.end(), [&](const auto& glob) { return matches(glob, id); });
}

bool SiteSelection::contains(const SiteId& id) const {
  if (id.dictionary != nullptr) return is_chosen(id);
  if (!candidates_[number_of(id.site)]) return false;
  if (id.expert != SiteId::kNoExpert) return is_chosen(id);
  const std::size_t at = index(id);
  if (known_.size() <= at) known_.resize(at + 1);
  if (known_[at] == Known::nothing) known_[at] = is_chosen(id) ? Known::yes : Known::no;
  return known_[at] == Known::yes;
}

/// Calls visit(site) for every selected site, in no particular order.
template <class Visit>
void SiteSelection::for_each_chosen(Visit&& visit) const {
  for_each(candidates_, [&](const SiteId& id) {
    if (contains(id)) visit(id);
  });
  for (const SiteId& id : layers_.of_dictionaries) {
    if (contains(id)) visit(id);
  }
}

std::int64_t SiteSelection::count() const {
  std::int64_t n = 0;
  for_each_chosen([&](const SiteId&) { ++n; });
  return n;
}

std::optional<SiteId> SiteSelection::last() const {
  std::optional<SiteId> last;
  for_each_chosen([&](const SiteId& id) {
    if (!last || precedes(*last, id)) last = id;
  });
  return last;
}

std::string SiteSelection::nearest_to(const std::string& glob) const {
  std::vector<std::string> names, last_parts;
  const auto add = [&](const SiteId& id) {
    names.push_back(name_of(id));
    last_parts.push_back(names.back().substr(names.back().rfind('.') + 1));
  };
  for_each(Sites(all_sites().size(), true), add);
  for (const SiteId& id : layers_.of_dictionaries) add(id);
  // A name of the list that the passes have not met is no suggestion.
  const std::size_t at = glob.find_last_of(".*") + 1;
  if (std::find(names.begin(), names.end(), glob) != names.end() ||
      std::find(last_parts.begin(), last_parts.end(), glob.substr(at)) != last_parts.end()) {
    return "";
  }
  const std::string whole = did_you_mean(glob, names);
  if (!whole.empty() || at == 0) return whole;
  const std::string part = nearest(std::string_view(glob).substr(at), last_parts);
  return part.empty() ? "" : "; did you mean " + glob.substr(0, at) + part + "?";
}

Recorder::Recorder(std::vector<std::string> globs, std::vector<SiteWrite> writes, const SiteLayers& layers,
                   Receive receive)
    : globs_(std::move(globs)),
      writes_(std::move(writes)),
      selection_(globs_, layers),
      written_(globs_of(writes_), layers),
      receive_(std::move(receive)),
      glob_met_(globs_.size()),
      write_met_(writes_.size()) {
  for (const std::optional<SiteId>& last : {selection_.last(), written_.last()}) {
    if (last && precedes(last_, *last)) last_ = *last;
  }
}

Tensor Recorder::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  if (pass.shapes_only) return visit_steps(pass, id, value), value;
  Tensor result = value, factor;
  const bool has_gradient = pass.is_taped() && pass.training.tape->knows(value);
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (!matches(writes_[i].glob, id)) continue;
    write_met_[i] = true;
    if (result.data == value.data) {
      result = pass.tensor(value.shape);
      std::copy_n(value.data, value.count(), result.data);
      if (has_gradient) factor = pass.tensor(value.shape);
      if (has_gradient) std::fill_n(factor.data, factor.count(), 1.0f);
    }
    apply(writes_[i], id, result, {.count = result.count(), .factor = factor});
  }
  if (factor.data != nullptr) {
    pass.record(OpKind::write, {value}, result, [&pass, value, factor, result] {
      const Tensor dvalue = pass.grad(value), dresult = pass.grad(result);
      pass.kernels.multiply_add(factor.data, dresult.data, value.count(), dvalue.data);
    });
  }
  visit_steps(pass, id, result);
  return result;
}

void Recorder::visit_step(Pass&, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                          const Tensor& factor) {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (!matches(writes_[i].glob, id)) continue;
    write_met_[i] = true;
    apply(writes_[i], id, value, {.first = first, .count = count, .factor = factor});
  }
}

void Recorder::meet(const SiteId& id) {
  for (std::size_t i = 0; i < globs_.size(); ++i) glob_met_[i] = glob_met_[i] || matches(globs_[i], id);
}

/// A dry run has no steps, so it checks the writes here.
void Recorder::visit_steps(Pass& pass, const SiteId& id, const Tensor& value) {
  for (std::size_t i = 0; i < writes_.size() && pass.shapes_only; ++i) {
    if (!matches(writes_[i].glob, id)) continue;
    write_met_[i] = true;
    if (!info(id.site).in_expert()) apply(writes_[i], id, value, {});  // how many tokens choose an expert is not known
  }
  if (!selection_.contains(id) || pass.training.recomputing) return;
  meet(id);
  if (receive_) receive_(id, value);
}

void Recorder::visit_rows(Pass&, const SiteId& id, const Tensor& rows) {
  if (!selection_.contains(id)) return;
  meet(id);
  receive_rows_(id, rows);
}

std::optional<SiteId> Recorder::last_wanted() const { return last_; }

void Recorder::visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) { receive_gradient_(id, gradient); }

void Recorder::check_all_met(bool but_experts) const {
  for (std::size_t i = 0; i < globs_.size(); ++i) {
    if (glob_met_[i] || (but_experts && names_experts(globs_[i]))) continue;
    throw BadInput("--sites", "no site of this model matches {}{}", globs_[i], selection_.nearest_to(globs_[i]));
  }
  check_writes_met(but_experts);
}

void Recorder::check_writes_met(bool but_experts) const {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (write_met_[i] || (but_experts && names_experts(writes_[i].glob))) continue;
    throw BadInput("--set", "{}: no site of this model matches {}{}", writes_[i].text, writes_[i].glob,
                   selection_.nearest_to(writes_[i].glob));
  }
}

}  // namespace vitrine
