// Names of models on a hub: hf:ORG/NAME[:WHAT][@REVISION].
#pragma once

#include <string>
#include <string_view>

namespace vitrine {

/// A repository of models, one of the choices in it, and a revision.
struct HubName {
  std::string repository;         ///< ORG/NAME
  std::string what{};             ///< A quantization, or the path of a .gguf; "": not given.
  std::string revision = "main";  ///< A branch, a tag or a commit.

  /// The name as parse_hub_name() reads it, without the parts that are the default.
  std::string text() const;
};

/// Whether a text is meant as such a name: it begins with hf:.
inline bool is_hub_name(std::string_view text) { return text.starts_with("hf:"); }

/// Throws BadInput for a text that is no such name.
HubName parse_hub_name(std::string_view text);

/// Throws BadInput unless `path` names a file inside a folder, however it is joined to it: no absolute path, no empty
/// part, `.` or `..`, no backslash, no control character. `where` says whose path it is.
void check_path_inside(std::string_view path, std::string_view where);

/// Throws BadInput unless `digits` are `length` lower-case hexadecimal digits, or, if it is 0, 40 or 64 of them.
void check_hexadecimal(std::string_view digits, std::size_t length, std::string_view where);

/// Whether a revision is a commit, which always has the same files.
bool is_commit(std::string_view revision);

}  // namespace vitrine
