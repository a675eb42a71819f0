#include "generate/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace vitrine {
namespace {

std::string with_hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Calls visit(value) with the value of a row of the sampler.
template <class Visit>
void visit_value(const OptionRow& row, const SamplingConfig& config, Visit visit) {
  if (const auto* const real = std::get_if<double SamplingConfig::*>(&row.value)) visit(config.**real);
  if (const auto* const whole = std::get_if<int SamplingConfig::*>(&row.value)) visit(config.**whole);
}

}  // namespace

bool OptionRange::contains(double value) const {
  return std::isfinite(value) && (is_above ? value > lowest : value >= lowest) && value <= highest;
}

std::string OptionRange::text(bool is_whole) const {
  const bool has_lowest = std::isfinite(lowest), has_highest = std::isfinite(highest);
  if (has_lowest && has_highest) {
    return is_whole ? fmt::format("a whole number from {:.0f} to {:.0f}", lowest, highest)
                    : fmt::format("a number in {}{}, {}]", is_above ? "(" : "[", lowest, highest);
  }
  const std::string kind = is_whole ? "a number" : "a finite number";
  return has_lowest ? fmt::format("{} {} {}", kind, is_above ? ">" : ">=", lowest) : kind;
}

std::string OptionRow::flag() const { return "--" + with_hyphens(name); }

std::string OptionRow::help() const {
  std::string text = about;
  visit_value(*this, {}, [&](auto otherwise) { text += fmt::format(" (default: {})", otherwise); });
  return text;
}

std::string OptionRow::expected() const {
  if (!names.empty()) {
    std::string text;
    for (const std::string& each : names) {
      text += (text.empty() ? "" : &each == &names.back() ? " or " : ", ") + each;
    }
    return text;
  }
  return std::visit(
      [&]<class T>(T GenerateOptions::*) -> std::string {
        if constexpr (std::is_same_v<T, bool>) return "true or false";
        if constexpr (std::is_same_v<T, std::optional<std::string>>) return "a text";
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a list of texts";
        if constexpr (std::is_same_v<T, std::optional<std::vector<std::int32_t>>>) return "a list of ids";
        return range.text(!std::is_same_v<T, std::optional<double>>);
      },
      place);
}

void SamplingConfig::validate() const {
  for (const OptionRow& row : option_rows()) {
    visit_value(row, *this, [&](auto value) {
      if (!row.range.contains(value)) throw BadInput(row.name, "expected {}, got {}", row.expected(), value);
    });
  }
  for (const auto& [id, bias] : logit_bias) {
    if (!std::isfinite(bias)) throw BadInput("logit_bias", "expected finite numbers, got {} for id {}", bias, id);
  }
}

std::string sampling_text(const SamplingConfig& config) {
  std::string text;
  for_each_sampling_value(config, [&](const char* name, auto value) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", with_hyphens(name), value);
  });
  return text;
}

}  // namespace vitrine
