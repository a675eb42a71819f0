// docs/families.md.
#pragma once

#include <string>

namespace vitrine::cli {

/// The families, the wrappers whose text half is read, and the types that are not supported. `made` says how the page
/// is generated.
std::string families_page(const std::string& made);

}  // namespace vitrine::cli
