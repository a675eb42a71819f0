// Dates and times of chat templates.
#include <chrono>
#include <ctime>

#include "base/text.h"
#include "template/chat_template.h"
#include "template/format.h"

namespace vitrine {

using jinja::format_time;

namespace {

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

std::chrono::sys_days day_of(int year, int month, int day) { return std::chrono::year(year) / month / day; }

std::string field(const TemplateClock& c, char type) {
  switch (type) {  // abbreviations of several fields
    case 'D':
      return format_time(c, "%m/%d/%y");
    case 'F':
      return format_time(c, "%Y-%m-%d");
    case 'R':
      return format_time(c, "%H:%M");
    case 'T':
      return format_time(c, "%H:%M:%S");
    default:
      break;
  }
  const auto two = [](int n) { return fmt::format("{:02}", n); };
  const std::chrono::sys_days day = day_of(c.year, c.month, c.day);
  const unsigned week_day = std::chrono::weekday(day).c_encoding();  // 0 is Sunday
  const std::string day_name = kDays[week_day], month_name = kMonths[c.month - 1];
  const std::pair<char, std::string> fields[] = {{'a', day_name.substr(0, 3)},
                                                 {'A', day_name},
                                                 {'b', month_name.substr(0, 3)},
                                                 {'B', month_name},
                                                 {'d', two(c.day)},
                                                 {'e', fmt::format("{:2}", c.day)},
                                                 {'f', fmt::format("{:06}", c.microsecond)},
                                                 {'H', two(c.hour)},
                                                 {'I', two((c.hour + 11) % 12 + 1)},
                                                 {'j', fmt::format("{:03}", (day - day_of(c.year, 1, 1)).count() + 1)},
                                                 {'m', two(c.month)},
                                                 {'M', two(c.minute)},
                                                 {'p', c.hour < 12 ? "AM" : "PM"},
                                                 {'S', two(c.second)},
                                                 {'w', std::to_string(week_day)},
                                                 {'y', two(c.year % 100)},
                                                 {'Y', std::to_string(c.year)},
                                                 {'%', "%"}};
  for (const auto& [name, text] : fields) {
    if (name == type) return text;
  }
  throw jinja::unsupported("directive of strftime_now", fmt::format("%{}", type));
}

}  // namespace

std::string jinja::format_time(const TemplateClock& clock, std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool is_short =
        format[++i] == '-' && i + 1 < format.size();  // %-d: without zeros or spaces before the number
    const std::string text = field(clock, format[i += is_short]);
    out += is_short && text.size() > 1 ? text.substr(std::min(text.find_first_not_of("0 "), text.size() - 1)) : text;
  }
  return out;
}

TemplateClock TemplateClock::now() {
  const auto moment = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(moment);
  std::tm local{};
  localtime_r(&seconds, &local);
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(moment.time_since_epoch()).count();
  return {local.tm_year + 1900,
          local.tm_mon + 1,
          local.tm_mday,
          local.tm_hour,
          local.tm_min,
          local.tm_sec,
          static_cast<int>(micro % 1'000'000)};
}

TemplateClock TemplateClock::parse(std::string_view iso) {
  const auto fail = [&] {
    return BadInput("--now", "expected a date and time such as 2026-01-02T03:04:05, got \"{}\"", iso);
  };
  const auto part = [&](std::size_t at, std::size_t size, int low, int high) {
    const auto value = at + size <= iso.size() ? number_in<int>(iso.substr(at, size)) : std::nullopt;
    if (!value || *value < low || *value > high || iso[at] == '-') throw fail();
    return *value;
  };
  const auto is_at = [&](std::size_t at, std::string_view any) {
    return at < iso.size() && any.find(iso[at]) != any.npos;
  };
  if (!is_at(4, "-") || !is_at(7, "-")) throw fail();
  TemplateClock c;
  c.year = part(0, 4, 1, 9999);
  c.month = part(5, 2, 1, 12);
  c.day = part(8, 2, 1, 31);
  if (!(std::chrono::year(c.year) / c.month / c.day).ok()) throw fail();
  if (iso.size() == 10) return c;
  if (!is_at(10, "T ") || !is_at(13, ":")) throw fail();
  c.hour = part(11, 2, 0, 23);
  c.minute = part(14, 2, 0, 59);
  if (iso.size() == 16) return c;
  if (!is_at(16, ":")) throw fail();
  c.second = part(17, 2, 0, 59);
  if (iso.size() == 19) return c;
  if (!is_at(19, ".") || iso.size() > 26) throw fail();
  c.microsecond = part(20, iso.size() - 20, 0, 999'999);
  for (std::size_t i = iso.size(); i < 26; ++i) c.microsecond *= 10;
  return c;
}

}  // namespace vitrine
