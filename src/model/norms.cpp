#include "model/norms.h"

#include "model/params.h"

namespace vitrine {
NormsByName norms_of(const ModelConfig& config) {
  NormsByName norms;
  ParamList list([](Param&, const std::string&, const Shape&) {},
                 [&](const std::string& name, const NormConfig& c) { norms.emplace(name, c); });
  ModelParams absent = empty_params(config);
  list_params(list, config, absent);
  return norms;
}

const NormConfig* norm_of_weight(const NormsByName& norms, std::string_view param) {
  constexpr std::string_view kEnding = ".weight";
  if (!param.ends_with(kEnding)) return nullptr;
  const auto it = norms.find(param.substr(0, param.size() - kEnding.size()));
  return it != norms.end() ? &it->second : nullptr;
}

}  // namespace vitrine
