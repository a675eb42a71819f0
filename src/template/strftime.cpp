#include "template/strftime.h"

#include <chrono>
#include <ctime>

#include "base/text.h"

namespace vitrine {
namespace {

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

int days_of(int month, int year) {
  constexpr int kDaysOf[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDaysOf[month - 1] + (month == 2 && is_leap(year));
}

/// Days since 1970-01-01.
std::int64_t day_number(const TemplateClock& c) {
  using namespace std::chrono;
  return sys_days(year(c.year) / month(static_cast<unsigned>(c.month)) / day(static_cast<unsigned>(c.day)))
      .time_since_epoch()
      .count();
}

/// 0 is Sunday.
int week_day(const TemplateClock& c) { return static_cast<int>(((day_number(c) + 4) % 7 + 7) % 7); }

/// 0 is the first of January.
int year_day(const TemplateClock& c) {
  int days = c.day - 1;
  for (int month = 1; month < c.month; ++month) days += days_of(month, c.year);
  return days;
}

/// The year and the number of a week of ISO 8601.
std::pair<int, int> iso_week(const TemplateClock& c) {
  const auto weeks_in = [](int year) {
    const int last = week_day({year, 12, 31});
    return last == 4 || (last == 5 && is_leap(year)) ? 53 : 52;
  };
  const int week = (year_day(c) - (week_day(c) + 6) % 7 + 10) / 7;
  if (week < 1) return {c.year - 1, weeks_in(c.year - 1)};
  if (week > weeks_in(c.year)) return {c.year + 1, 1};
  return {c.year, week};
}

std::string field(const TemplateClock& c, char type) {
  const auto two = [](int n) { return fmt::format("{:02}", n); };
  const int hour12 = c.hour % 12 == 0 ? 12 : c.hour % 12;
  switch (type) {
    case 'a':
      return std::string(kDays[week_day(c)], 3);
    case 'A':
      return kDays[week_day(c)];
    case 'b':
    case 'h':
      return std::string(kMonths[c.month - 1], 3);
    case 'B':
      return kMonths[c.month - 1];
    case 'c':
      return field(c, 'a') + " " + field(c, 'b') + fmt::format(" {:2} ", c.day) + field(c, 'T') +
             fmt::format(" {}", c.year);
    case 'C':
      return two(c.year / 100);
    case 'd':
      return two(c.day);
    case 'D':
    case 'x':
      return two(c.month) + "/" + two(c.day) + "/" + two(c.year % 100);
    case 'e':
      return fmt::format("{:2}", c.day);
    case 'f':
      return fmt::format("{:06}", c.microsecond);
    case 'F':
      return fmt::format("{}-{:02}-{:02}", c.year, c.month, c.day);
    case 'g':
      return two(iso_week(c).first % 100);
    case 'G':
      return fmt::format("{}", iso_week(c).first);
    case 'H':
      return two(c.hour);
    case 'I':
      return two(hour12);
    case 'j':
      return fmt::format("{:03}", year_day(c) + 1);
    case 'k':
      return fmt::format("{:2}", c.hour);
    case 'l':
      return fmt::format("{:2}", hour12);
    case 'm':
      return two(c.month);
    case 'M':
      return two(c.minute);
    case 'n':
      return "\n";
    case 'p':
      return c.hour < 12 ? "AM" : "PM";
    case 'P':
      return c.hour < 12 ? "am" : "pm";
    case 'r':
      return two(hour12) + ":" + two(c.minute) + ":" + two(c.second) + " " + field(c, 'p');
    case 'R':
      return two(c.hour) + ":" + two(c.minute);
    case 's':
      return fmt::format("{}", day_number(c) * 86400 + c.hour * 3600 + c.minute * 60 + c.second);
    case 'S':
      return two(c.second);
    case 't':
      return "\t";
    case 'T':
    case 'X':
      return field(c, 'R') + ":" + two(c.second);
    case 'u':
      return fmt::format("{}", (week_day(c) + 6) % 7 + 1);
    case 'U':
      return two((year_day(c) + 7 - week_day(c)) / 7);
    case 'V':
      return two(iso_week(c).second);
    case 'w':
      return fmt::format("{}", week_day(c));
    case 'W':
      return two((year_day(c) + 7 - (week_day(c) + 6) % 7) / 7);
    case 'y':
      return two(c.year % 100);
    case 'Y':
      return fmt::format("{}", c.year);
    case 'z':
    case 'Z':
      return "";
    case '%':
      return "%";
    default:
      return std::string("%") + type;
  }
}

/// `2.3` of `%-d` and similar: the field without its leading zeros or spaces, or padded otherwise.
std::string repadded(const std::string& text, char flag, char type) {
  if (flag == '^') {
    std::string upper = text;
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return upper;
  }
  if (std::string_view("aAbBhpPcxXDFTrR%nt").find(type) != std::string_view::npos) return text;
  const std::size_t first = std::min(text.find_first_not_of("0 "), text.size() - 1);
  if (text.empty() || first >= text.size()) return text;
  if (flag == '-') return text.substr(first);
  return std::string(first, flag == '_' ? ' ' : '0') + text.substr(first);
}

}  // namespace

std::string jinja::format_time(const TemplateClock& clock, std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char flag = format[i + 1];
    if ((flag == '-' || flag == '_' || flag == '0' || flag == '^') && i + 2 < format.size()) {
      out += repadded(field(clock, format[i + 2]), flag, format[i + 2]);
      i += 2;
    } else {
      out += field(clock, flag);
      ++i;
    }
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
  c.day = part(8, 2, 1, days_of(c.month, c.year));
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
