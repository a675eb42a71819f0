#include "generate/read_option.h"

#include <algorithm>

namespace vitrine {
namespace {

template <class T>
const T& value_of(const std::optional<T>& place) {
  return *place;
}
template <class T>
const T& value_of(const T& place) {
  return place;
}

}  // namespace

void read_option(ObjectFields& fields, std::string_view name, const OptionRow& row, const OptionRange& range,
                 GenerateOptions& options) {
  const auto read = [&](auto place) {
    using T = std::decay_t<decltype(value_of(options.*place))>;
    constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
    const bool is_whole = std::is_integral_v<T>;
    const auto value = fields.get<T>(name, !is_number ? row.expected() : is_whole ? "a whole number" : "a number");
    if (!value) return;
    bool fits = true;
    if constexpr (is_number) fits = range.contains(static_cast<double>(*value));
    if constexpr (std::is_same_v<T, std::string>) {
      const bool is_one = std::find(row.names.begin(), row.names.end(), *value) != row.names.end();
      if (!row.names.empty() && !is_one) fields.fail(name, "expected " + row.expected() + ", got " + *value);
    }
    if (!fits) fields.fail_value(name, range.text(is_whole), *fields.find(name));
    options.*place = *value;
  };
  std::visit(read, row.place);
}

}  // namespace vitrine
