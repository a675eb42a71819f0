#include "model/norms.h"

#include "model/params.h"

namespace vitrine {
namespace {

void visit_norms(const ModelConfig& config, const ParamList::VisitNorm& visit) {
  ParamList list([](Param&, const std::string&, const Shape&) {}, visit);
  ModelParams absent = empty_params(config);
  list_params(list, config, absent);
}

}  // namespace

NormsByName norms_of(const ModelConfig& config) {
  NormsByName norms;
  visit_norms(config, [&](const std::string& name, const NormConfig& c) { norms.emplace(name, c); });
  return norms;
}

void for_each_norm(ModelConfig& config, const std::function<void(NormConfig&)>& visit) {
  // The norms that are visited are members of `config`.
  visit_norms(config, [&](const std::string&, const NormConfig& c) { visit(const_cast<NormConfig&>(c)); });
}

const NormConfig* norm_of_weight(const NormsByName& norms, std::string_view param) {
  constexpr std::string_view kEnding = ".weight";
  if (!param.ends_with(kEnding)) return nullptr;
  const auto it = norms.find(param.substr(0, param.size() - kEnding.size()));
  return it != norms.end() ? &it->second : nullptr;
}

}  // namespace vitrine
