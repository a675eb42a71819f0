// Generates complete texts.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "generate/engine.h"

namespace vitrine {

struct GenerateTimings {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
};

/// Runs the steps of an engine and measures them.
class TimedSteps {
 public:
  EngineStep step(Engine& engine);
  GenerateTimings timings() const;

 private:
  double prefill_seconds_ = 0, decode_seconds_ = 0;
  std::int64_t prefill_tokens_ = 0, decode_tokens_ = 0;
};

/// Receives the text of request `request` as it is generated, in whole characters.
using StreamText = std::function<void(std::size_t request, const std::string& text)>;

/// Continues all requests together in an Engine. A text ends at a stop id, a stop string, max_tokens or the end of the
/// context. Throws the exceptions of Engine::add(), and the error of the first sequence that fails: NotFinite,
/// Interrupted.
std::vector<GenerateResult> generate(const GenerateContext& context, std::span<const GenerateRequest> requests,
                                     const StreamText& stream = {}, GenerateTimings* timings = nullptr);

/// Runs requests in the order of their sources' lengths, at most `batch` at a time, so that those of a pass have about
/// the same length. Calls receive(i, result) when request i ends. A request without a source has an empty result. The
/// results do not depend on `batch`. Throws the error of a request that fails.
void generate_sorted(const GenerateContext& context, std::span<const GenerateRequest> requests, std::int64_t batch,
                     const std::function<void(std::size_t i, const GenerateResult& result)>& receive);

}  // namespace vitrine
