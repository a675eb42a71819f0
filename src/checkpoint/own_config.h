// The keys of config.json of models that no published family describes (model_type "vitrine"), for docs/config.md, and
// the names of their tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

/// A key that sets several fields of a config, or decides which there are.
struct OwnKey {
  std::string_view name;
  std::string_view otherwise;  ///< Its default, in Markdown; empty: the first word, or the key is required.
  std::string_view sentence;
  std::vector<std::string_view> words{};  ///< Its values, if they are words.
};

/// A row of the table of keys, in Markdown.
struct OwnKeyRow {
  std::string name, otherwise, sentence;
};
struct OwnKeySection {
  std::string heading;
  std::vector<OwnKeyRow> rows;
};

/// All keys, in the order of docs/config.md.
std::vector<OwnKeySection> own_config_keys();

/// The names of all tensors, for one stack and for two, without their endings.
std::span<const std::string> own_tensor_names();
/// The names of recurrent cells, which are those of torch.nn, and of the rates of states: they have no ending.
std::span<const std::string> own_cell_names();

}  // namespace vitrine
