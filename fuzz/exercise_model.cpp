#include "exercise_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "fuzzing.h"

namespace vitrine::fuzz {
namespace {

constexpr std::int64_t kTokens = 3;

using Logits = std::vector<float>;

/// Runs `ids` in chunks of `chunk` tokens through a cache; nothing where the pass was refused.
std::optional<Logits> run(const Model& model, const std::vector<std::int32_t>& ids, std::int64_t chunk,
                          const Kernels& kernels) {
  Logits logits;
  ThreadPool pool(1);
  Arena arena;
  const auto n = static_cast<std::int64_t>(ids.size());
  KvCache cache = model.make_cache(n, DType::f32);
  try {
    for (std::int64_t first = 0; first < n; first += chunk) {
      const std::int64_t length = std::min(chunk, n - first);
      Pass pass{{pool, kernels, arena}, {{0, length, first, &cache}}, {}};
      pass.logits = {LogitRequest::Rows::range, 0, length,
                     [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
      model.forward(pass, std::span(ids).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)));
    }
  } catch (const BadInput&) {
    return std::nullopt;  // values that are not finite
  }
  return logits;
}

}  // namespace

void exercise_model(const Checkpoint& checkpoint) {
  const Model& model = *checkpoint.model;
  const ModelConfig& config = model.config();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(kTokens, config.max_seq_len)));
  std::iota(ids.begin(), ids.end(), 0);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(config.vocab_size - 1 - id % config.vocab_size);
  const auto at_once = run(model, ids, kTokens, default_kernels());
  const auto one_by_one = run(model, ids, 1, kernels_for(Isa::scalar));
  expect(at_once.has_value() == one_by_one.has_value(), "a model is refused however it runs");
  if (!at_once) return;
  expect(at_once->size() == ids.size() * static_cast<std::size_t>(config.vocab_size), "every token has logits");
  expect(at_once->size() == one_by_one->size() &&
             std::memcmp(at_once->data(), one_by_one->data(), at_once->size() * sizeof(float)) == 0,
         "logits have the same bits however the model runs");
}

}  // namespace vitrine::fuzz
