#include "generate/generator.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

namespace vitrine {

std::string_view name_of(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

EngineStep TimedSteps::step(Engine& engine) {
  const auto start = std::chrono::steady_clock::now();
  EngineStep step = engine.step();
  const bool is_prefill = step.prompt_tokens > 0;
  (is_prefill ? prefill_seconds_ : decode_seconds_) +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  (is_prefill ? prefill_tokens_ : decode_tokens_) += step.prompt_tokens + step.decoded_tokens;
  return step;
}

GenerateTimings TimedSteps::timings() const {
  const auto speed = [](std::int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  return {speed(prefill_tokens_, prefill_seconds_), speed(decode_tokens_, decode_seconds_)};
}

std::vector<GenerateResult> generate(const GenerateContext& context, std::span<const GenerateRequest> requests,
                                     const StreamText& stream, GenerateTimings* timings) {
  Engine engine(context);
  for (const GenerateRequest& request : requests) engine.add(request);
  std::vector<GenerateResult> results(requests.size());
  TimedSteps steps;
  while (!engine.empty()) {
    EngineStep step = steps.step(engine);
    for (SequenceStep& s : step.sequences) {
      if (s.error) std::rethrow_exception(s.error);
      if (stream && !s.text.empty()) stream(s.id, s.text);
      if (s.result) results[s.id] = std::move(*s.result);
    }
  }
  if (timings != nullptr) *timings = steps.timings();
  return results;
}

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
