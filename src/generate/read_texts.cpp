#include "generate/read_texts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace vitrine {

void check_text(const Segment& segment) {
  if (segment.failure) throw error_of({segment.failure->where, segment.failure->row - segment.first_row});
}

namespace {

void check(const GenerateContext& context, const TextIds& texts) {
  const ModelConfig& config = context.model->config();
  const StackConfig& stack = config.encoder ? *config.encoder : config;
  for (std::size_t i = 0; i < texts.ids.size(); ++i) {
    const std::vector<std::int32_t>& ids = texts.ids[i];
    const auto n = static_cast<std::int64_t>(ids.size());
    if (n == 0) throw BadInput("text", "expected at least one token, got none");
    if (n > stack.max_seq_len) {
      throw BadInput("text", "the text has {} tokens, the model's context is {}", n, stack.max_seq_len);
    }
    context.model->refuse_placeholders(ids);
    GenerateContext::check_ids(ids, stack.vocab_size);
    if (texts.types.empty() || texts.types[i].empty()) continue;
    if (texts.types[i].size() != ids.size()) {
      throw BadInput("text", "expected {} types, got {}", n, texts.types[i].size());
    }
  }
}

/// One pass over several texts.
void read_batch(const GenerateContext& context, const TextIds& texts, std::span<const std::size_t> batch, Arena& arena,
                const PreparePass& prepare) {
  std::vector<std::int32_t> ids, types;
  std::vector<Segment> segments;
  const bool is_typed = std::any_of(batch.begin(), batch.end(),
                                    [&](std::size_t i) { return !texts.types.empty() && !texts.types[i].empty(); });
  for (const std::size_t i : batch) {
    Segment segment{static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(texts.ids[i].size())};
    if (!texts.marks.empty()) segment.n_padding = texts.marks[i].n_padding();
    segments.push_back(std::move(segment));
    ids.insert(ids.end(), texts.ids[i].begin(), texts.ids[i].end());
    if (is_typed) types.insert(types.end(), texts.types[i].begin(), texts.types[i].end());
    if (is_typed) types.resize(ids.size(), 0);
  }
  const bool has_encoder = context.model->config().encoder.has_value();
  Pass pass = context.make_pass(arena);
  std::vector<Segment>& own = has_encoder ? pass.sources : pass.segments;
  own = std::move(segments);
  prepare(pass, own, batch);
  context.forward(pass, has_encoder ? Tokens({}, types, ids) : Tokens(ids, types));
  for (const Segment& segment : own) check_text(segment);
}

}  // namespace

void read_texts(const GenerateContext& context, const TextIds& texts, std::int64_t max_rows,
                const PreparePass& prepare) {
  check(context, texts);
  std::vector<std::size_t> order(texts.ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return texts.ids[a].size() > texts.ids[b].size(); });
  Arena arena;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    std::int64_t rows = 0;
    while (end < order.size() && (end == first || rows + std::ssize(texts.ids[order[end]]) <= max_rows)) {
      rows += std::ssize(texts.ids[order[end++]]);
    }
    read_batch(context, texts, std::span(order).subspan(first, end - first), arena, prepare);
    first = end;
  }
}

}  // namespace vitrine
