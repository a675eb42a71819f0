// vitrine plot: draw the curves of training runs as an SVG file.
#include "metrics/plot.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/file_writer.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

namespace vitrine::cli {
namespace {

struct PlotOptions : Options {
  std::vector<std::string> runs;
  std::string out = "curves.svg";
};

/// Runs whose folders have the same name are named by their paths.
std::vector<MetricCurves> read_runs(const std::vector<std::string>& paths) {
  std::vector<MetricCurves> runs;
  std::map<std::string, int> uses;
  for (const std::string& path : paths) ++uses[runs.emplace_back(read_metrics(path)).name];
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (uses.at(runs[i].name) > 1) runs[i].name = paths[i];
  }
  return runs;
}

void run_plot(const PlotOptions& o) {
  const std::vector<MetricCurves> runs = read_runs(o.runs);
  const std::string svg = plot_svg(runs);
  stop_cleanly();
  write_file(o.out, svg);
  if (o.json) return print_json({{"out", o.out}, {"runs", runs.size()}, {"bytes", svg.size()}});
  print(fmt::format("{}: the curves of {} run{}\n", o.out, runs.size(), runs.size() == 1 ? "" : "s"));
}

}  // namespace

void add_plot(Command& program) {
  const auto [command, o] = new_command<PlotOptions>(program, "plot", "Draw the curves of training runs");
  command.add_option("RUN", o->runs, "Folders of runs, or their metrics.jsonl files; one drawing shows all")
      ->required()
      ->type_name("");
  command.add_option("--out", o->out, "The .svg file to write")->capture_default_str();
  finish_command(command, o, run_plot, "Example: vitrine plot run/ --out curves.svg");
}

}  // namespace vitrine::cli
