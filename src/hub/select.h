// Which files of a repository a name means.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/name.h"

namespace vitrine {

/// What a caller is going to open.
enum class HubWanted {
  model,         ///< A model or an adapter, with its weights.
  tokenizer,     ///< The tokenizer and the templates of a model, without its weights.
  chat_template  ///< The file of a chat template.
};

struct HubSelection {
  std::vector<std::string> files;  ///< Paths in the repository.
  std::string opened{};            ///< Which of them is opened; "": the folder that they are in.
};

/// A repository with safetensors is a folder, unless the name has a quantization. Otherwise its GGUF files are the
/// choices. `read` gives the content of a file, for the index of shards. Throws BadInput, with the choices, if none or
/// several match; Unsupported if the weights are pickles alone; BadCheckpoint for an index that cannot be read.
HubSelection select_files(const HubName& name, HubWanted wanted, const std::vector<std::string>& paths,
                          const std::function<std::string(const std::string& path)>& read);

/// Whether a file is of a tokenizer or a template: it does not say what a model is.
bool is_of_tokenizer(std::string_view path);

}  // namespace vitrine
