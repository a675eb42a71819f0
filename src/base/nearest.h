// "Did you mean …": the nearest of the names that exist.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vitrine {

/// The candidate that differs from `name` by the fewest slips of a typist (letters of both cases count as equal), the
/// first among equals; "" where it takes more than a slip for each three letters.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

/// "; did you mean NAME?", or "" where nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// The same for a path that does not exist: the nearest name in its folder, with that folder.
std::string did_you_mean_file(const std::string& path);

}  // namespace vitrine
