// Opens dictionaries of every format for a model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "parallel/thread_pool.h"
#include "pass/dictionary.h"

namespace vitrine {

/// Which dictionaries, and where: [NAME=]PATH[@SITE].
struct DictionaryText {
  std::string name{}, path{}, site{};
};

/// A text that names a file or folder is its path; a word of letters, digits, _ and - before the first = is a name; a
/// text after the last @ that has no / is a site. Throws BadInput for an empty path or site.
/// `option` names the option of the text, `path` what PATH is.
DictionaryText parse_dictionary_text(const std::string& text, const char* option = "--sae", const char* path = "PATH");
/// Whether a text can be the name of a dictionary or probe: letters, digits, _ and -, at most 64.
bool is_dictionary_name(std::string_view text);

/// The dictionaries of a folder, or of the folder of a file: one, or one for each layer. Their matrices are views of
/// the files. Throws BadInput for a path without a dictionary, for a site that is missing or that the model does not
/// have, and for @SITE of several; Unsupported, naming it, for a pickle, an architecture or a tensor that is not known;
/// BadCheckpoint for files that are malformed and widths that are not those of the sites.
std::vector<std::shared_ptr<const Dictionary>> load_dictionaries(const DictionaryText& text, const Model& model,
                                                                 ThreadPool& pool);
/// The one dictionary of a folder, not bound to sites. Throws as load_dictionaries(), and BadInput for several.
std::shared_ptr<const Dictionary> read_dictionary(const std::string& path);

/// A site that a dictionary can have, and the number of elements of its rows.
struct DictionarySiteOf {
  SiteId id;
  std::int64_t width = 0;
};
/// Throws BadInput, which `where` begins, for a name of another site and for one that the model does not have.
std::vector<DictionarySiteOf> dictionary_sites(const std::string& where, const std::vector<std::string>& names,
                                               const Model& model, ThreadPool& pool);

}  // namespace vitrine
