#include "model/norms.h"

#include "model/params.h"

namespace vitrine {
namespace {

/// A visitor of parameters that receives norms, too.
struct NormVisitor {
  NormsByName norms;

  void operator()(const Param&, const std::string&, const Shape&) const {}
  void norm(const std::string& name, const NormConfig& c) { norms.emplace(name, c); }
};

}  // namespace

NormsByName norms_of(const ModelConfig& config) {
  const ModelParams absent = empty_params(config);
  NormVisitor visitor;
  for_each_param(config, absent, visitor);
  return std::move(visitor.norms);
}

const NormConfig* norm_of_weight(const NormsByName& norms, std::string_view param) {
  constexpr std::string_view kEnding = ".weight";
  if (!param.ends_with(kEnding)) return nullptr;
  const auto it = norms.find(param.substr(0, param.size() - kEnding.size()));
  return it != norms.end() ? &it->second : nullptr;
}

}  // namespace vitrine
