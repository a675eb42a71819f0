// vitrine plot: one drawing of several runs, and errors.
#include "cli/program.h"

namespace vitrine::test {
namespace {

TEST(PlotCommand, WritesOneDrawingOfAllRuns) {
  const TempFolder folder;
  const std::string run = source_dir() + "/tests/metrics/metrics.jsonl", out = folder / "curves.svg";
  const Json json = json_of({"plot", run, run, "--out", out});
  EXPECT_EQ(json["runs"], 2);
  EXPECT_EQ(json["bytes"], read_file(out).size());
  EXPECT_THAT(read_file(out), testing::StartsWith("<svg"));
  EXPECT_THAT(read_file(out), testing::HasSubstr(">" + run + "<")) << "runs of the same name must show their paths";
  write_file(folder / "other.jsonl", read_file(run));
  json_of({"plot", run, folder / "other.jsonl", "--out", out});
  EXPECT_THAT(read_file(out), testing::AllOf(testing::HasSubstr(">metrics<"), testing::HasSubstr(">other<")));
}

TEST(PlotCommand, ReportsErrors) {
  const TempFolder folder;
  const std::string run = source_dir() + "/tests/metrics/metrics.jsonl", out = folder / "curves.svg";
  expect_usage_error({"plot"});
  expect_error({"plot", folder / "none", "--out", out}, {"none", "metrics.jsonl"});
  write_file(folder / "text.jsonl", "not\nmetrics\n");
  expect_error({"plot", run, folder / "text.jsonl", "--out", out}, {"text.jsonl:1"});
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_error({"plot", run, "--out", folder / "none/curves.svg"}, {"none/curves.svg"});
}

}  // namespace
}  // namespace vitrine::test
