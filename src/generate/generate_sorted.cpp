#include "generate/generate_sorted.h"

#include <algorithm>
#include <deque>
#include <map>

namespace vitrine {

void generate_sorted(const GenerateContext& context, std::span<const GenerateRequest> requests, std::int64_t batch,
                     const std::function<void(std::size_t i, const GenerateResult& result)>& receive) {
  constexpr std::int64_t kRowsPerStep = 1 << 12;  // of sources
  std::deque<std::size_t> waiting;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].source.empty()) {
      waiting.push_back(i);
      continue;
    }
    GenerateResult nothing;
    nothing.finish_reason = FinishReason::stop;
    receive(i, nothing);
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].source.size() > requests[b].source.size(); });
  Engine engine(context);
  std::map<std::uint64_t, std::size_t> running;  // by the engine's ids
  while (!waiting.empty() || !running.empty()) {
    while (!waiting.empty() && static_cast<std::int64_t>(running.size()) < batch) {
      running[engine.add(requests[waiting.front()])] = waiting.front();
      waiting.pop_front();
    }
    for (const SequenceStep& step : engine.step(kRowsPerStep).sequences) {
      if (step.error) std::rethrow_exception(step.error);
      if (!step.result) continue;
      const std::size_t i = running.at(step.id);
      running.erase(step.id);
      receive(i, *step.result);
    }
  }
}

}  // namespace vitrine
