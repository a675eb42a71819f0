#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <vector>

namespace vitrine {
namespace {

constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxEntries = 10'000;  // entries of a folder that are compared, at most

int lower(char c) { return std::tolower(static_cast<unsigned char>(c)); }

/// The number of insertions, deletions, substitutions and swaps of adjacent letters (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above.back();
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kMaxName) return "";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxName) continue;
    const std::size_t d = distance(name, candidate);
    if (d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string best = nearest(name, candidates);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::string did_you_mean_file(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path wanted = fs::path(path).lexically_normal();
  if (!wanted.has_filename()) wanted = wanted.parent_path();  // as in "models/gpt2/"
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < kMaxEntries;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::string best = nearest(wanted.filename().string(), names);
  return best.empty() ? "" : "; did you mean " + (wanted.parent_path() / best).string() + "?";
}

}  // namespace vitrine
