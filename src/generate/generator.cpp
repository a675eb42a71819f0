#include "generate/generator.h"

#include <chrono>

namespace vitrine {

std::string_view name_of(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

std::vector<GenerateResult> generate(const GenerateContext& context, std::span<const GenerateRequest> requests,
                                     const StreamText& stream, GenerateTimings* timings) {
  using Clock = std::chrono::steady_clock;
  Engine engine(context);
  for (const GenerateRequest& request : requests) engine.add(request);
  std::vector<GenerateResult> results(requests.size());
  double seconds[2] = {0, 0};  // decode, prefill
  double tokens[2] = {0, 0};
  while (!engine.empty()) {
    const auto start = Clock::now();
    EngineStep step = engine.step();
    const bool is_prefill = step.prompt_tokens > 0;
    seconds[is_prefill] += std::chrono::duration<double>(Clock::now() - start).count();
    tokens[is_prefill] += static_cast<double>(step.prompt_tokens + step.decoded_tokens);
    for (SequenceStep& s : step.sequences) {
      if (s.error) std::rethrow_exception(s.error);
      if (stream && !s.text.empty()) stream(s.id, s.text);
      if (s.result) results[s.id] = std::move(*s.result);
    }
  }
  if (timings != nullptr) {
    timings->prefill_tokens_per_s = seconds[1] > 0 ? tokens[1] / seconds[1] : 0;
    timings->decode_tokens_per_s = seconds[0] > 0 ? tokens[0] / seconds[0] : 0;
  }
  return results;
}

}  // namespace vitrine
