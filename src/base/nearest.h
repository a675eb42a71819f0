// "Did you mean …?": the existing name that is most similar to a misspelled one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vitrine {

/// The candidate with the smallest edit distance to `name`, ignoring case, or the first such candidate if several tie.
/// Returns "" if every distance exceeds a third of the length of `name` (1 for short names).
std::string nearest(std::string_view name, std::span<const std::string> candidates);

/// "; did you mean NAME?", or "" if no candidate is similar.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// The same for a path that does not exist: suggests the most similar name in its folder.
std::string did_you_mean_file(const std::string& path);

}  // namespace vitrine
