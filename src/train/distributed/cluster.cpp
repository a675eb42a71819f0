#include "train/distributed/cluster.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file_writer.h"

namespace vitrine {
namespace {

constexpr double kSlow = 1.5;   // times the median
constexpr int kSlowLines = 10;  // after which a rank is reported

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace

void ClusterLog::open(const std::string& folder, std::int64_t steps_done) {
  const std::string path = folder + "/ranks.jsonl";
  std::string kept;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const Json report = Json::parse(line, nullptr, false);
    const auto step = report.is_object() ? report.find("step") : report.end();
    if (!report.is_object() || step == report.end() || !step->is_number_integer()) break;
    if (step->get<std::int64_t>() <= steps_done) kept += line + "\n";
  }
  in.close();
  write_file(path, kept);
  lines_.emplace(path);
}

void ClusterLog::meet(double step_s, RankReport::Stop stop) {
  const Ranks::Traffic traffic = ranks_.take_traffic();
  const RankReport own{
      step_s, traffic.communicate_s, traffic.wait_s, traffic.bytes_sent, resident_bytes(), peak_resident_bytes(), stop};
  reports_ = ranks_.gather_values<RankReport>({&own, 1});
}

RankReport::Stop ClusterLog::agreed() const {
  std::int32_t stop = RankReport::go_on;
  for (const RankReport& report : reports_) stop = std::max(stop, report.stop);
  return static_cast<RankReport::Stop>(stop);
}

void ClusterLog::write(std::int64_t step, const std::function<void(const std::string&)>& tell) {
  if (reports_.empty()) return;  // a resumed run finishes the step of another
  slow_lines_.resize(reports_.size());
  std::vector<double> times;
  for (const RankReport& report : reports_) times.push_back(report.compute_s());
  std::sort(times.begin(), times.end());
  const double median = times[(times.size() - 1) / 2];
  std::string lines;
  for (std::size_t r = 0; r < reports_.size(); ++r) {
    const RankReport& report = reports_[r];
    const int rank = static_cast<int>(r);
    const Json line = {{"step", step},
                       {"rank", rank},
                       {"host", ranks_.host(rank)},
                       {"compute_s", report.compute_s()},
                       {"communicate_s", report.communicate_s},
                       {"wait_s", report.wait_s},
                       {"bytes_sent", report.bytes_sent},
                       {"rss_bytes", report.rss_bytes}};
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    slow_lines_[r] = report.compute_s() > kSlow * median ? slow_lines_[r] + 1 : 0;
    if (slow_lines_[r] != kSlowLines) continue;
    tell(fmt::format("{} is slow: it computes for {:.3g} s a step, and the median rank for {:.3g} s", ranks_.name(rank),
                     report.compute_s(), median));
  }
  lines_->append(lines);
}

Json ClusterLog::summary(const std::string& shard) const {
  Json hosts = Json::array(), sent = Json::array(), compute = Json::array(), wait = Json::array(), peak = Json::array();
  double step_s = 0;
  for (std::size_t r = 0; r < reports_.size(); ++r) {
    hosts.push_back(ranks_.host(static_cast<int>(r)));
    sent.push_back(reports_[r].bytes_sent);
    compute.push_back(reports_[r].compute_s());
    wait.push_back(reports_[r].wait_s);
    peak.push_back(reports_[r].peak_rss_bytes);
    step_s = std::max(step_s, reports_[r].step_s);
  }
  return {{"ranks", ranks_.size()}, {"hosts", hosts},       {"shard", shard}, {"bytes_sent", sent},
          {"step_s", step_s},       {"compute_s", compute}, {"wait_s", wait}, {"peak_rss_bytes", peak}};
}

}  // namespace vitrine
