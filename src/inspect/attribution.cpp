#include "inspect/attribution.h"

#include <numeric>

#include "base/error.h"
#include "inspect/stream_parts.h"

namespace vitrine {
namespace {

using Vector = std::vector<double>;

/// The sites whose values make up the attribution.
std::vector<SiteId> sites_of(const Model& model, bool by_head) {
  std::vector<SiteId> sites = sites_of_parts(model, by_head);
  for (const Site site : {Site::unembed_in, Site::unembed_out, Site::logits}) sites.push_back({site});
  return sites;
}

/// The input of the unembedding and, if its weight is multiplied as integers, what rounding adds to it.
void add_rounding(Pass& pass, const Param& weight, const SiteId& id, const Tensor& value, PositionValues& values) {
  const ArenaScope scope(pass.arena);
  const Tensor rounded = as_multiplied(pass, value, weight.view);
  Vector difference(static_cast<std::size_t>(value.count()));
  for (std::size_t i = 0; i < difference.size(); ++i) {
    difference[i] = static_cast<double>(rounded.data[i]) - static_cast<double>(value.data[i]);
  }
  values.add(id, {value.data, value.shape});
  SiteId rounding = id;
  rounding.layer = 0;  // no site of its own
  std::vector<float> copy(difference.begin(), difference.end());
  values.add(rounding, {copy.data(), value.shape});
}

const Param& unembedding(const Model& model) {
  return model.config().head.tied ? model.params().embed : model.params().unembed.weight;
}

/// Adds the row of the value at a site to `values`.
void add_row(const Model& model, Pass& pass, std::int64_t position, const SiteId& id, const Tensor& row,
             PositionValues& values) {
  if (id.site == Site::unembed_in) return add_rounding(pass, unembedding(model), id, row, values);
  add_value(model, pass, position, id, row, values);
}

/// Runs the text once and reads the values at `position`.
PositionValues read_values(const GenerateContext& context, const Tokens& tokens, std::int64_t position, bool by_head) {
  const Model& model = *context.model;
  PositionValues values;
  SiteReader reader(sites_of(model, by_head), [&](Pass& pass, const SiteId& id, const Tensor& value) {
    const bool is_chosen = info(id.site).place >= SitePlace::final_norm;
    add_row(model, pass, position, id, is_chosen ? value : value.row_range(position, 1), values);
  });
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &reader;
  pass.logits.rows = LogitRequest::Rows::chosen;
  pass.logits.chosen = {position};
  model.forward(pass, tokens);
  return values;
}

/// Takes the values from `value`. A site that the model lacks is left out, as in a run.
PositionValues given_values(const GenerateContext& context, const Tokens& tokens, std::int64_t position, bool by_head,
                            const ValueAtPosition& value) {
  PositionValues values;
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  for (const SiteId& id : sites_of(*context.model, by_head)) {
    const Tensor row = value(id);
    if (row.data != nullptr) add_row(*context.model, pass, position, id, row, values);
  }
  return values;
}

void refuse_what_is_not_linear(const GenerateContext& context) {
  const ModelConfig& config = context.model->config();
  if (!config.has_head) throw Unsupported("attribute", "the model has no head, so it has no logits");
  if (config.head.width) {
    throw Unsupported("attribute", "the head has a linear map before the unembedding, whose parts are not computed");
  }
  if (config.head.transform) throw Unsupported("attribute", "the head is not linear: it has an activation function");
  check_stream_parts(config);
  for (const AppliedAdapter& applied : context.modifiers.adapters) {
    if (applied.adapter->find("unembed.weight") != nullptr) {
      throw Unsupported("attribute", "an adapter changes the unembedding; merge it first (vitrine lora merge)");
    }
  }
}

}  // namespace

std::int64_t resolve_position(std::int64_t position, std::int64_t n) {
  const std::int64_t from_start = position < 0 ? position + n : position;
  if (from_start < 0 || from_start >= n) {
    throw BadInput("--position", "expected a position from {} to {} in a text of {} tokens, got {}", -n, n - 1, n,
                   position);
  }
  return from_start;
}

namespace {

/// `given` is empty: the values are those of a run of its own.
Attribution attributed(const GenerateContext& context, const Tokens& tokens, const AttributionOptions& o,
                       const ValueAtPosition& given) {
  const Model& model = *context.model;
  refuse_what_is_not_linear(context);
  const std::vector<std::int32_t> wanted = {o.token, o.against.value_or(0)};
  GenerateContext::check_ids(wanted, model.config().vocab_size);
  Attribution result;
  result.position = resolve_position(o.position, static_cast<std::int64_t>(tokens.ids.size()));
  const PositionValues values = given ? given_values(context, tokens, result.position, o.by_head, given)
                                      : read_values(context, tokens, result.position, o.by_head);

  const auto difference = [&](const auto& of) {
    const double value = of(o.token);
    return o.against ? value - of(*o.against) : value;
  };
  Vector row = doubles_of(unembedding(model).view, o.token);
  if (o.against) {
    const Vector other = doubles_of(unembedding(model).view, *o.against);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] -= other[i];
  }
  std::vector<Edits> ablations;
  const auto add = [&](const std::string& name, double value, Edits ablation) {
    result.terms.push_back({name, value});
    result.sum += value;
    ablations.push_back(std::move(ablation));
  };
  const auto product = [&](const Vector& x) { return std::inner_product(x.begin(), x.end(), row.begin(), 0.0); };
  for (StreamPart& part : stream_parts(model, context.modifiers.controls, values, o.by_head)) {
    add(part.name, product(part.vector), std::move(part.ablation));
  }
  const double rounding = product(values[{Site::unembed_in, 0}]);
  if (rounding != 0) add("head.rounding", rounding, {});
  if (const Param& bias = model.params().unembed.bias; bias.present()) {
    const Vector all = doubles_of(bias.view, 0);
    add("head.bias", difference([&](std::int32_t id) { return all[static_cast<std::size_t>(id)]; }),
        {without_bias({Site::unembed_out}, bias)});
  }
  const auto at = [&](Site site) {
    const Vector& all = values[{site}];
    return difference([&](std::int32_t id) { return all[static_cast<std::size_t>(id)]; });
  };
  result.unembedded = at(Site::unembed_out);
  result.logit = at(Site::logits);
  if (!o.ablate) return result;
  EditedRuns(context, tokens, result.position).run(ablations, [&](std::size_t run, std::span<const float> logits) {
    if (ablations[run].empty()) return;
    result.terms[run].ablated =
        difference([&](std::int32_t id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]); });
  });
  return result;
}

}  // namespace

Attribution attribute(const GenerateContext& context, const Tokens& tokens, const AttributionOptions& options) {
  return attributed(context, tokens, options, {});
}

Attribution attribute(const GenerateContext& context, const Tokens& tokens, const AttributionOptions& options,
                      const ValueAtPosition& value) {
  return attributed(context, tokens, options, value);
}

}  // namespace vitrine
