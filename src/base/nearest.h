// "Did you mean …": the nearest of the names that exist.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vitrine {

/// The candidate with the least Levenshtein distance to `name` (letters of both cases count as equal), the first among
/// equals; "" where none differs in at most a third of its letters.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

/// "; did you mean NAME?", or "" where nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// The same for a path that does not exist: the nearest name in its folder, with that folder.
std::string did_you_mean_file(const std::string& path);

}  // namespace vitrine
