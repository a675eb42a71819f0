// The formats of strings, each a regex whose every text is valid.
//
// Sources: RFC 3339 (dates, times, durations), 5321 (email), 1123 (host names), 4291 (IPv6), 3986 (URI), 4122 (UUID).
#include <fmt/format.h>

#include "constrain/schema/shape.h"

namespace vitrine::constrain {
namespace {

// No year 0: libraries of dates refuse it.
constexpr std::string_view kDate =
    R"((?:(?:\d{3}[1-9]|\d{2}[1-9]\d|\d[1-9]\d{2}|[1-9]\d{3})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|(?:\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29))";
constexpr std::string_view kTime =
    R"((?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)))";
constexpr std::string_view kDuration =
    R"(P(?:\d{1,9}W|(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)(?:T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))?|T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S)))";
// At most 4 × 61 + 3 characters, labels without "--", which would be an encoding, the last not a number.
constexpr std::string_view kHostname =
    R"((?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,30}\.){0,3}[A-Za-z](?:-?[A-Za-z0-9]){0,30})";
constexpr std::string_view kEmailName = R"([A-Za-z0-9_+-]{1,16}(?:\.[A-Za-z0-9_+-]{1,15}){0,3})";
constexpr std::string_view kIpv4 = R"((?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
constexpr std::string_view kGroup = "[0-9A-Fa-f]{1,4}";
constexpr std::string_view kPath = R"((?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}))";

std::string ipv6() {
  std::string all = fmt::format("(?:(?:{0}:){{7}}{0}|(?:{0}:){{1,7}}:", kGroup);
  for (int before = 1; before <= 6; ++before) {  // `before` groups, "::", and as many as then fit
    all += fmt::format("|(?:{0}:){{{1}}}(?::{0}){{1,{2}}}", kGroup, before, 7 - before);
  }
  return all + fmt::format("|:(?::{0}){{1,7}}|::)", kGroup);
}

std::string uri() {
  return fmt::format(
      R"([A-Za-z][A-Za-z0-9+.-]{{0,15}}:(?://(?:{0}|{1})(?::\d{{1,5}})?(?:/{2}*)*|{2}+(?:/{2}*)*)(?:\?(?:{2}|[/?])*)?(?:#(?:{2}|[/?])*)?)",
      kHostname, kIpv4, kPath);
}

}  // namespace

std::optional<std::string> format_regex(std::string_view format) {
  const auto whole = [](std::string_view regex) { return fmt::format("^(?:{})$", regex); };
  if (format == "date") return whole(kDate);
  if (format == "time") return whole(kTime);
  if (format == "date-time") return whole(fmt::format("{}T{}", kDate, kTime));
  if (format == "duration") return whole(kDuration);
  if (format == "email") return whole(fmt::format("{}@{}", kEmailName, kHostname));
  if (format == "hostname") return whole(kHostname);
  if (format == "ipv4") return whole(kIpv4);
  if (format == "ipv6") return whole(ipv6());
  if (format == "uri") return whole(uri());
  if (format == "uuid") return whole("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");
  return std::nullopt;
}

}  // namespace vitrine::constrain
