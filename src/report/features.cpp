#include "report/features.h"

#include "report/results.h"

namespace vitrine {
namespace {

Json sae_json(const ActiveFeatures& own, WantedRows rows, std::size_t top) {
  Json tokens = Json::array();
  for (std::int64_t t = rows.first; t < rows.end; ++t) {
    tokens.push_back(features_json(strongest(own.rows.row(t), top)));
  }
  const Dictionary& d = *own.dictionary;
  return {{"name", d.name.empty() ? Json() : Json(d.name)},
          {"site", name_of(d.output)},
          {"architecture", d.architecture},
          {"d_in", d.d_in()},
          {"d_sae", d.d_sae()},
          {"tokens", std::move(tokens)}};
}

}  // namespace

Json features_json(std::span<const std::int32_t> ids, std::span<const ActiveFeatures> all, WantedRows rows,
                   std::size_t top, const Tokenizer* tokenizer) {
  const auto own = ids.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.end - rows.first));
  Json pieces = Json::array(), saes = Json::array();
  for (const std::int32_t id : own) pieces.push_back(piece_of(tokenizer, id));
  for (const ActiveFeatures& features : all) saes.push_back(sae_json(features, rows, top));
  return {{"ids", std::vector<std::int32_t>(own.begin(), own.end())},
          {"pieces", std::move(pieces)},
          {"saes", std::move(saes)}};
}

}  // namespace vitrine
