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

using Ids = std::vector<std::int32_t>;
using Logits = std::vector<float>;

/// What a model reads; `source` is for the encoder of an encoder–decoder.
struct Input {
  Ids ids, source;
};

/// The last ids of a vocabulary.
Ids last_ids(std::int64_t vocab_size, std::int64_t max_length) {
  Ids ids(static_cast<std::size_t>(std::min(kTokens, max_length)));
  std::iota(ids.begin(), ids.end(), 0);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(vocab_size - 1 - id % vocab_size);
  return ids;
}

/// Runs the rows [first, first + length), which continue those in `cache` if there is one, and appends their logits.
void run_rows(const Model& model, const Input& input, std::int64_t first, std::int64_t length, KvCache* cache,
              ExecutionContext machine, Logits& logits) {
  Pass pass{machine, {{0, length, first, cache}}, {}};
  Tokens tokens(std::span(input.ids).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)));
  if (first == 0 && !input.source.empty()) {
    pass.segments[0].source = 0;
    pass.sources = {{0, static_cast<std::int64_t>(input.source.size())}};
    tokens.source = input.source;
  }
  pass.logits = {LogitRequest::Rows::range, 0, length,
                 [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
  model.forward(pass, tokens);
}

/// The logits of `input`, all tokens at once or, with a cache, one by one; nothing if the model refuses the pass.
std::optional<Logits> run(const Model& model, const Input& input, Isa isa, bool one_by_one) {
  const auto n = static_cast<std::int64_t>(input.ids.size());
  Logits logits;
  ThreadPool pool(1);
  Arena arena;
  const ExecutionContext machine{pool, kernels_for(isa), arena};
  try {
    if (!one_by_one) {
      run_rows(model, input, 0, n, nullptr, machine, logits);
      return logits;
    }
    KvCache cache = model.make_cache(n, KvType::f32);
    if (!input.source.empty()) {
      cache.set_source(model.make_source_cache(static_cast<std::int64_t>(input.source.size()), KvType::f32));
    }
    for (std::int64_t t = 0; t < n; ++t) run_rows(model, input, t, 1, &cache, machine, logits);
    return logits;
  } catch (const BadInput&) {
    return std::nullopt;  // values that are not finite
  }
}

}  // namespace

void exercise_model(const Checkpoint& checkpoint) {
  const Model& model = *checkpoint.model;
  const ModelConfig& config = model.config();
  Input input{last_ids(config.vocab_size, config.max_seq_len), {}};
  if (config.encoder) input.source = last_ids(config.encoder->vocab_size, config.encoder->max_seq_len);
  const auto at_once = run(model, input, default_kernels().isa, false);
  const auto again = run(model, input, Isa::scalar, !is_bidirectional(config));
  expect(at_once.has_value() == again.has_value(), "a model is refused however it runs");
  if (!at_once) return;
  expect(at_once->size() == input.ids.size() * static_cast<std::size_t>(config.vocab_size), "every token has logits");
  expect(at_once->size() == again->size() &&
             std::memcmp(at_once->data(), again->data(), at_once->size() * sizeof(float)) == 0,
         "logits have the same bits however the model runs");
}

}  // namespace vitrine::fuzz
