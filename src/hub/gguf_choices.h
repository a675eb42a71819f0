// The GGUF files of a folder or a repository, of which each is a model.
#pragma once

#include <string>
#include <vector>

namespace vitrine {

/// The first file of each model, sorted: projectors and importance matrices are none, and X-00001-of-00003.gguf and the
/// files after it are one, whether or not they are there.
std::vector<std::string> gguf_choices(const std::vector<std::string>& paths);

}  // namespace vitrine
