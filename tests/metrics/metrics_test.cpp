// Metrics files: the same bytes as TensorBoard, truncation on resume, incomplete lines.
#include "metrics/metrics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "support/figures.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string bytes_of(const std::string& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// Compares with the bytes that TensorBoard writes for the same events (tools/goldens events).
TEST(EventFile, HasTheBytesOfTensorBoard) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::string bytes = first_event_record(1767225600.0);
  bytes += event_record(1767225600.25, 1, std::vector<Metric>{{"loss", 4.125}, {"lr", 0.001}});
  bytes += event_record(1767225601.5, 300, std::vector<Metric>{{"grad_norm", kInfinity}, {"é", -0.5}});
  bytes += event_record(1767225602.0, std::int64_t{1} << 40, {});
  EXPECT_EQ(bytes, bytes_of(source_dir() + "/tests/metrics/events.golden"));
}

TEST(EventFile, ChecksumIsCrc32c) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xE3069283U);  // the published check value
}

/// The steps of the lines in a folder's metrics.jsonl.
std::vector<std::int64_t> steps_in(const std::string& path) {
  std::vector<std::int64_t> steps;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) steps.push_back(Json::parse(line)["step"].get<std::int64_t>());
  return steps;
}

class MetricsFiles : public testing::Test {
 protected:
  void write(std::int64_t begin, std::int64_t end, std::int64_t steps_done) {
    MetricsLog log(folder_ / "", steps_done);
    for (std::int64_t step = begin; step < end; ++step) {
      log.write(step, std::vector<Metric>{{"loss", 5.0 - static_cast<double>(step) / 8}, {"lr", 1e-3}});
    }
  }

  ScratchFolder folder_;
  const std::string path_ = folder_ / "metrics.jsonl";
  const std::string events_ = folder_ / "events.out.tfevents.vitrine";
};

TEST_F(MetricsFiles, AreTruncatedToTheResumedStep) {
  write(1, 8, 0);
  const std::string lines = bytes_of(path_), events = bytes_of(events_);
  write(0, 0, 100);
  EXPECT_EQ(bytes_of(path_), lines);
  const std::size_t first = first_event_record(0).size();  // it now has the time of the first line
  EXPECT_EQ(bytes_of(events_).substr(first), events.substr(first));
  write(6, 9, 5);
  EXPECT_THAT(steps_in(path_), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(bytes_of(path_).substr(0, 40), lines.substr(0, 40));
  write(0, 0, 0);
  EXPECT_THAT(steps_in(path_), ElementsAre());
}

TEST_F(MetricsFiles, LoseAnIncompleteLine) {
  write(1, 4, 0);
  const std::string whole = bytes_of(path_);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    const std::string cut = whole.substr(0, length);
    std::ofstream(path_, std::ios::binary) << cut;
    const auto complete = static_cast<std::size_t>(std::count(cut.begin(), cut.end(), '\n'));
    write(9, 10, 3);
    ASSERT_EQ(steps_in(path_).size(), complete + 1) << length;
  }
  std::ofstream(path_, std::ios::binary) << whole << "garbage\n";
  write(9, 10, 3);
  EXPECT_THAT(steps_in(path_), ElementsAre(1, 2, 3, 9));
  std::ofstream(path_, std::ios::binary) << "garbage\n" << whole;
  EXPECT_THROW(write(9, 10, 3), BadInput);
}

TEST_F(MetricsFiles, AreReadAsCurves) {
  write(1, 3, 0);
  MetricsLog(folder_ / "", 2).write(3, std::vector<Metric>{{"loss", std::nan("")}, {"val_loss", 2.5}});
  const MetricCurves run = read_metrics(folder_ / "");
  EXPECT_THAT(run.curves.at("loss"), ElementsAre(Pair(1, 4.875), Pair(2, 4.75)));
  EXPECT_THAT(run.curves.at("val_loss"), ElementsAre(Pair(3, 2.5)));
  EXPECT_EQ(run.curves.count("time"), 0U);
  EXPECT_EQ(read_metrics(path_).curves, run.curves);
  EXPECT_EQ(read_metrics(path_).name, run.name);

  EXPECT_THROW(read_metrics(folder_ / "none"), BadInput);
  for (const char* text : {"", "\n", "[1]\n[2]\n", "{\"step\":1}\n", "{\"step\":\"1\",\"loss\":1}\n{}\n"}) {
    std::ofstream(path_, std::ios::binary) << text;
    EXPECT_THROW(read_metrics(path_), BadInput) << text;
  }
}

TEST_F(MetricsFiles, ReportUnwritablePaths) {
  EXPECT_THROW(MetricsLog(folder_ / "missing", 0), BadInput);
  AppendedFile full("/dev/full");
  EXPECT_THROW(full.append("x"), OutOfCapacity);
}

}  // namespace
}  // namespace vitrine::test
