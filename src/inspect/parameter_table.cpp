#include "inspect/parameter_table.h"

#include <algorithm>

#include "model/count.h"

namespace vitrine {
namespace {

/// The length of `blocks.`, `encoder.` or `decoder.` in the name of a layer's parameter; 0 for others.
std::size_t block_prefix(const std::string& name) {
  const std::size_t at = name.find('.') + 1;
  const bool has_layer = name.starts_with("blocks.") || name.starts_with("encoder.") || name.starts_with("decoder.");
  return has_layer && name[at] >= '0' && name[at] <= '9' ? at : 0;
}

}  // namespace

std::vector<ParameterRow> parameter_table(const ModelConfig& config) {
  std::vector<ParameterRow> rows;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    const std::size_t at = block_prefix(name);
    const std::string general = at > 0 ? name.substr(0, at) + "N" + name.substr(name.find('.', at)) : name;
    const auto is_same = [&](const ParameterRow& row) { return row.name == general && row.shape == shape; };
    const auto it = std::find_if(rows.begin(), rows.end(), is_same);
    if (it != rows.end()) return void(++it->layers);
    rows.push_back({general, name, shape, at > 0, 1});
  });
  return rows;
}

}  // namespace vitrine
