#include "metrics/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/nearest.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLines = "metrics.jsonl";
constexpr const char* kEvents = "events.out.tfevents.vitrine";  // TensorBoard looks for "tfevents"

struct Line {
  std::int64_t step = 0;
  double time = 0;
  std::vector<Metric> metrics;
  std::size_t end = 0;  ///< In the file, after the line.
};

/// nullopt if the text is not a line of metrics.
std::optional<Line> parse_line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  Line line;
  line.step = json["step"].get<std::int64_t>();
  for (const auto& [name, value] : json.items()) {
    if (name == "step" || !value.is_number()) continue;
    if (name == "time") {
      line.time = value.get<double>();
    } else {
      line.metrics.push_back({name, value.get<double>()});
    }
  }
  return line;
}

/// Calls visit(line) for the lines of a file until it returns false. Ignores an incomplete or invalid last line.
template <class Visit>
void for_each_line(std::string_view text, const std::string& path, Visit&& visit) {
  int number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return;  // incomplete
    auto line = parse_line(text.substr(at, end - at));
    if (!line && end + 1 == text.size()) return;
    if (!line) {
      throw BadInput(path + ":" + std::to_string(number), "expected a line of metrics, an object with a step");
    }
    line->end = at = end + 1;
    if (!visit(*line)) return;
  }
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Removes the lines of later steps, and rewrites the event file. Returns the path of the log.
std::string truncate_log(const std::string& folder, std::int64_t steps_done, const ReportProgress& report) {
  const std::string path = (fs::path(folder) / kLines).string();
  std::string kept_events;
  std::error_code error;
  if (fs::exists(path, error)) {
    std::size_t kept = 0;
    {
      const auto file = MappedFile::open(path);
      for_each_line(file->text(), path, [&](const Line& line) {
        if (line.step > steps_done) return false;
        if (kept_events.empty()) kept_events = first_event_record(line.time);
        kept_events += event_record(line.time, line.step, line.metrics);
        kept = line.end;
        if (report) report(static_cast<std::int64_t>(kept), static_cast<std::int64_t>(file->bytes().size()));
        return true;
      });
    }
    fs::resize_file(path, kept, error);
    if (error) throw BadInput(path, "cannot truncate the file: {}", error.message());
  }
  if (kept_events.empty()) kept_events = first_event_record(now());
  write_file((fs::path(folder) / kEvents).string(), kept_events);
  return path;
}

}  // namespace

AppendedFile::AppendedFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_write_error(path_, "cannot write");
}

AppendedFile::~AppendedFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendedFile::append(std::string_view piece) {
  while (!piece.empty()) {
    const ssize_t n = ::write(fd_, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_write_error(path_, "cannot write");
    piece.remove_prefix(static_cast<std::size_t>(n));
  }
}

MetricsLog::MetricsLog(const std::string& folder, std::int64_t steps_done, const ReportProgress& report)
    : lines_(truncate_log(folder, steps_done, report)), events_((fs::path(folder) / kEvents).string()) {}

void MetricsLog::write(std::int64_t step, std::span<const Metric> metrics) {
  const double time = now();
  std::string line = "{\"step\":" + std::to_string(step) + ",\"time\":" + Json(time).dump();
  for (const Metric& metric : metrics) line += "," + Json(metric.name).dump() + ":" + Json(metric.value).dump();
  lines_.append(line + "}\n");
  events_.append(event_record(time, step, metrics));
}

MetricCurves read_metrics(const std::string& run) {
  fs::path path = run;
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw BadInput(run, "expected the folder of a run, or its metrics.jsonl{}", did_you_mean_file(run));
  }
  if (fs::is_directory(path, error)) path /= kLines;
  const fs::path folder = fs::absolute(path).parent_path();
  MetricCurves result;
  result.name = path.filename() == kLines ? folder.filename().string() : path.stem().string();
  const auto file = MappedFile::open(path.string());
  for_each_line(file->text(), path.string(), [&](const Line& line) {
    for (const Metric& metric : line.metrics) {
      result.curves[metric.name].emplace_back(static_cast<double>(line.step), metric.value);
    }
    return true;
  });
  if (result.curves.empty()) throw BadInput(path.string(), "expected lines of metrics, found none");
  return result;
}

}  // namespace vitrine
