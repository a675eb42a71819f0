#include "checkpoint/adapters/modifier_text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace vitrine {
namespace {

bool exists(std::string_view path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// Takes :FIRST-LAST from the end of a text, if it is there.
LayerRange take_layers(const std::string& text, std::string_view& rest) {
  const std::size_t colon = rest.rfind(':'), dash = rest.rfind('-');
  if (colon == rest.npos || dash == rest.npos || dash < colon) return {};
  const auto first = number_in<int>(rest.substr(colon + 1, dash - colon - 1)),
             last = number_in<int>(rest.substr(dash + 1));
  if (!first || !last) return {};
  if (*first < 0 || *first > *last) {
    throw BadInput("--control", "expected layers FIRST-LAST, got \"{}\"", text);
  }
  rest = rest.substr(0, colon);
  return {*first, *last};
}

/// Takes =SCALE from the end, if it is there.
double take_scale(const char* option, const std::string& text, std::string_view& rest) {
  const std::size_t at = rest.rfind('=');
  if (at == rest.npos) return 1;
  const auto scale = number_in<double>(rest.substr(at + 1));
  if (!scale) return 1;
  if (!std::isfinite(*scale)) throw BadInput(option, "expected a finite scale, got \"{}\"", text);
  rest = rest.substr(0, at);
  return *scale;
}

ModifierText parse(const char* option, const std::string& text, bool has_layers) {
  ModifierText result;
  std::string_view rest = text;
  if (!exists(rest)) {
    if (has_layers) result.layers = take_layers(text, rest);
    if (!exists(rest)) result.scale = take_scale(option, text, rest);
    const std::size_t equals = exists(rest) ? rest.npos : rest.find('=');
    if (equals != rest.npos && is_modifier_name(rest.substr(0, equals))) {
      result.name = std::string(rest.substr(0, equals));
      rest.remove_prefix(equals + 1);
    }
  }
  if (const std::size_t colon = rest.rfind(':'); has_layers && colon != rest.npos && !exists(rest)) {
    if (exists(rest.substr(0, colon))) throw BadInput(option, "expected PATH[=SCALE][:FIRST-LAST], got \"{}\"", text);
  }
  const std::size_t last = rest.rfind('=');
  const bool has_bad_scale = last != rest.npos && !exists(rest) && exists(rest.substr(0, last));
  if (rest.empty() || has_bad_scale) {
    throw BadInput(option, "expected PATH or PATH=SCALE{}, got \"{}\"",
                   has_layers ? ", with or without :FIRST-LAST" : "", text);
  }
  result.path = std::string(rest);
  return result;
}

}  // namespace

bool is_modifier_name(std::string_view text) {
  constexpr std::size_t kMaxName = 128;
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, [](char c) {
    const char lower = static_cast<char>(c | 0x20);
    return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') || c == '.' || c == '_' || c == '-';
  });
}

ModifierText parse_adapter_text(const std::string& text) { return parse("--adapter", text, false); }
ModifierText parse_control_text(const std::string& text) { return parse("--control", text, true); }

}  // namespace vitrine
