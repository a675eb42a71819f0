#include "inspect/patch.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "inspect/edited_runs.h"
#include "inspect/objective.h"
#include "model/sites.h"
#include "ops/attention_sites.h"

namespace vitrine {
namespace {

/// What a sublayer adds to the stream.
bool is_output(Site site) {
  const SitePlace place = info(site).place;
  return place == SitePlace::mixer_output || place == SitePlace::laurel_output || place == SitePlace::ffn_output ||
         place == SitePlace::ple_output;
}

/// The stream, the outputs of sublayers, and values of attention.
std::span<const Site> sites_to_patch() {
  static const std::vector<Site> sites = [] {
    using enum AttentionSite;
    std::vector<Site> all = {Site::resid_pre, Site::resid_mid, Site::resid_post};
    std::copy_if(all_sites().begin(), all_sites().end(), std::back_inserter(all), is_output);
    for (const AttentionSite site : {z, q, k, v, pattern}) all.emplace_back(site);
    return all;
  }();
  return sites;
}

bool is_by_head(Site site) { return info(site).shape.dims().size() == 3; }

/// A value of one layer.
struct LayerValue {
  Shape shape;
  std::vector<float> data;
};

/// A run of a prompt: the values at the site of all layers, and the metric.
struct PromptRun {
  std::vector<LayerValue> values;
  double metric = 0;
};

PromptRun run_prompt(const GenerateContext& context, const Tokens& tokens, const std::vector<SiteId>& sites,
                     const Objective& objective) {
  PromptRun run;
  SiteReader reader(sites, [&](Pass&, const SiteId&, const Tensor& value) {
    run.values.push_back({value.shape, {value.data, value.data + value.count()}});
  });
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &reader;
  pass.logits.rows = LogitRequest::Rows::chosen;
  pass.logits.chosen = {objective.position};
  pass.logits.receive = [&](std::int64_t, const Tensor& logits) {
    run.metric = objective.value({logits.data, static_cast<std::size_t>(logits.count())});
  };
  context.model->forward(pass, tokens);
  return run;
}

/// Calls body(offset, count) for the runs of elements of place `place` of a value: a row of `[T, d]`, a head of
/// `[T, n, dh]` or of `[H, T, S]`.
template <class Body>
void for_each_part(const Shape& shape, Site site, std::int64_t place, Body&& body) {
  if (!is_by_head(site) || site == AttentionSite::pattern)
    return body(place * shape.count_from(1), shape.count_from(1));
  for (std::int64_t t = 0; t < shape[0]; ++t) body((t * shape[1] + place) * shape[2], shape[2]);
}

/// The number of places of a value.
std::int64_t places_of(const Shape& shape, Site site) {
  return is_by_head(site) && site != AttentionSite::pattern ? shape[1] : shape[0];
}

SiteEdit clean_value(const SiteId& site, const LayerValue& clean, std::int64_t place) {
  SiteEdit edit{site, {}};
  if (!is_by_head(site.site)) {
    edit.position = place;
    edit.change = [&clean, place](const Tensor& own, std::int64_t first) {
      const std::int64_t d = own.row_size();
      std::copy_n(clean.data.data() + place * d, d, own.row(place - first));
    };
    return edit;
  }
  edit.change = [&clean, place, kind = site.site](const Tensor& own, std::int64_t) {
    for_each_part(own.shape, kind, place, [&](std::int64_t offset, std::int64_t count) {
      std::copy_n(clean.data.data() + offset, count, own.data + offset);
    });
  };
  return edit;
}

/// For each layer and place, gradient · difference.
std::vector<std::vector<double>> approximated(const GenerateContext& context, const Tokens& tokens,
                                              const std::vector<SiteId>& sites, const Objective& objective,
                                              const PromptRun& clean, const PromptRun& corrupted,
                                              const std::vector<std::string>& frozen) {
  class GradientReader : public SiteReader {
   public:
    using SiteReader::SiteReader;
    bool wants_gradient(const SiteId& id) const override { return wants(id); }
    void visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) override { receive(id, gradient); }
    std::function<void(const SiteId&, const Tensor&)> receive;
  };
  std::vector<std::vector<double>> all(context.model->config().blocks.size());
  GradientReader reader(sites, [](Pass&, const SiteId&, const Tensor&) {});
  reader.receive = [&](const SiteId& id, const Tensor& gradient) {
    const auto layer = static_cast<std::size_t>(id.layer);
    const auto number = static_cast<std::size_t>(std::find(sites.begin(), sites.end(), id) - sites.begin());
    for (std::int64_t place = 0; place < places_of(gradient.shape, id.site); ++place) {
      double sum = 0;
      for_each_part(gradient.shape, id.site, place, [&](std::int64_t offset, std::int64_t count) {
        for (std::int64_t i = offset; i < offset + count; ++i) {
          const auto at = static_cast<std::size_t>(i);
          const double difference = static_cast<double>(clean.values[number].data[at]) -
                                    static_cast<double>(corrupted.values[number].data[at]);
          sum += static_cast<double>(gradient.data[i]) * difference;
        }
      });
      all[layer].push_back(sum);
    }
  };
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &reader;
  std::optional<FrozenPass> with_frozen;
  if (!frozen.empty()) pass.taps = &with_frozen.emplace(CleanRun(context, frozen, 0), reader);
  backward_from_objective(*context.model, pass, tokens, objective);
  return all;
}

/// The site of this name in a block with latent attention, which derives some values and uses none of them.
std::optional<Site> latent_site(Site site) {
  for (std::size_t row = 0; row < kLatentSites.size(); ++row) {
    if (kLatentSites[row].name != info(site).name) continue;
    return kLatentSites[row].on_demand ? std::nullopt : std::optional<Site>({kLatentSiteTable, row});
  }
  return site;
}

/// One of sites_to_patch() in a block; nullopt: the block has none.
std::optional<Site> site_in(const BlockConfig& block, Site site) {
  const auto if_it = [&](bool has_it) { return has_it ? std::optional(site) : std::nullopt; };
  if (site == Site::resid_pre || site == Site::resid_post) return site;
  if (site == Site::resid_mid) return if_it(has_middle(block));
  const auto writes = [&](const Sublayer& sublayer) { return names_of(sublayer).out == site; };
  if (is_output(site)) return if_it(std::any_of(block.sublayers.begin(), block.sublayers.end(), writes));
  if (find<LatentAttentionConfig>(block) != nullptr) return latent_site(site);
  return if_it(find<AttentionConfig>(block) != nullptr);
}

/// The site in the layers that have it.
std::vector<SiteId> sites_of(const ModelConfig& config, Site site) {
  std::vector<SiteId> sites;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const std::optional<Site> own = site_in(config.blocks[i], site);
    if (own) sites.push_back(BlockSite{static_cast<int>(i), config.stack()}(*own));
  }
  if (sites.empty()) throw Unsupported("--site", "no layer of the model has {}", info(site).name);
  return sites;
}

}  // namespace

std::vector<std::string> patch_sites() {
  std::vector<std::string> names;
  for (const Site site : sites_to_patch()) names.emplace_back(info(site).name);
  return names;
}

Site patch_site(const std::string& name) {
  const std::vector<std::string> names = patch_sites();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return sites_to_patch()[static_cast<std::size_t>(at - names.begin())];
  throw BadInput("--site", "expected a site that can be patched, got \"{}\"{}", name, did_you_mean(name, names));
}

Patch patch(const GenerateContext& context, const Tokens& clean, const Tokens& corrupted, const PatchOptions& o) {
  const ModelConfig& config = context.model->config();
  if (clean.ids.size() != corrupted.ids.size()) {
    throw BadInput("--corrupted", "expected a prompt of {} tokens, as the clean one has, got {}", clean.ids.size(),
                   corrupted.ids.size());
  }
  const std::vector<std::int32_t> wanted = {o.token, o.against.value_or(0)};
  GenerateContext::check_ids(wanted, config.vocab_size);
  const std::vector<SiteId> sites = sites_of(config, o.site);
  const Objective objective{o.token, o.against, static_cast<std::int64_t>(clean.ids.size()) - 1, o.is_logprob};
  const PromptRun of_clean = run_prompt(context, clean, sites, objective);
  const PromptRun of_corrupted = run_prompt(context, corrupted, sites, objective);

  Patch result;
  result.clean = of_clean.metric;
  result.corrupted = of_corrupted.metric;
  result.by_head = is_by_head(o.site);
  std::vector<Edits> runs;
  std::vector<std::size_t> layers;  // of the runs
  result.metric.resize(config.blocks.size());
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const std::int64_t n = places_of(of_clean.values[i].shape, o.site);
    for (std::int64_t place = 0; place < n; ++place) {
      runs.push_back({clean_value(sites[i], of_clean.values[i], place)});
      layers.push_back(static_cast<std::size_t>(sites[i].layer));
    }
  }
  EditedRuns edited(context, corrupted, objective.position);
  if (!o.frozen.empty()) edited.freeze(o.frozen);
  edited.run(runs, [&](std::size_t run, std::span<const float> logits) {
    result.metric[layers[run]].push_back(objective.value(logits));
  });
  const double gap = result.clean - result.corrupted;
  for (const std::vector<double>& row : result.metric) {
    result.recovered.emplace_back();
    for (const double metric : row) {
      result.recovered.back().push_back(gap == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                 : (metric - result.corrupted) / gap);
    }
  }
  if (o.approximate) {
    result.approximate = approximated(context, corrupted, sites, objective, of_clean, of_corrupted, o.frozen);
  }
  return result;
}

}  // namespace vitrine
