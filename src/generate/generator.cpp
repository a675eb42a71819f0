#include "generate/generator.h"

#include <chrono>

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

}  // namespace vitrine
