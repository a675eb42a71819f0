// POST /v1/features: what a feature does in a corpus, from the index that the server has (--features-index).
#include "inspect/feature_index.h"
#include "serve/modifier_fields.h"
#include "serve/routes.h"

namespace vitrine {
namespace routes {

Json feature(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  read_model(model, fields);
  const auto number = fields.whole<std::int64_t>("feature", 0);
  const auto site = fields.text("site");
  fields.finish();
  if (model.feature_indexes.empty()) {
    throw RequestError(kLacksAbility, "model", "the server has no index of features (--features-index)");
  }
  if (!number) throw RequestError(kInvalid, "feature", "expected the number of a feature, got none");
  const FeatureIndex& index = index_named(model.feature_indexes, site.value_or(""), "site");
  if (*number >= index.d_sae()) {
    throw RequestError(kInvalid, "feature", "expected a feature from 0 to {}, got {}", index.d_sae() - 1, *number);
  }
  return dashboard_json(index, index.dashboard(*number));
}

}  // namespace routes
}  // namespace vitrine
