// metrics.jsonl of a run: reads it and plots it.
#include "folder.h"
#include "fuzzing.h"
#include "metrics/plot.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::answer([&] {
    folder.put("metrics.jsonl", fuzz::text_of(data, size));
    const MetricCurves runs[] = {read_metrics(folder.path())};
    const std::string svg = plot_svg(runs);
    fuzz::expect(svg.find("nan") == svg.npos && svg.find("inf") == svg.npos, "every place of a drawing is a number");
  });
}
