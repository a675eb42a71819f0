#include "report/describe.h"

namespace vitrine {

OrderedJson json_of(const ConfigFacts& facts) {
  OrderedJson json;
  for (const ConfigFact& fact : facts) {
    std::visit([&](const auto& value) { json[fact.name] = value; }, fact.value);
  }
  return json;
}

}  // namespace vitrine
