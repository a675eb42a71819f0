#include "generate/encode.h"

#include "generate/read_values.h"

namespace vitrine {

void encode(const GenerateContext& context, std::span<const std::vector<std::int32_t>> texts,
            const EncodeOptions& options, const ReceiveVector& receive) {
  TextSteps steps{.source = options.mode ? TextSteps::Source::rows : TextSteps::Source::pooler};
  if (options.mode) steps.steps.emplace_back(PoolStep{{*options.mode}});
  if (options.normalize) steps.steps.emplace_back(NormalizeStep{});
  read_values(context, steps, {texts}, options.max_rows,
              [&](std::size_t i, const Tensor& vector) { receive(i, vector.values()); });
}

}  // namespace vitrine
