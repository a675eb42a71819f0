#include "checkpoint/tensor_rules.h"

#include "checkpoint/names.h"

namespace vitrine {
namespace {

/// The stack that a parameter of ours belongs to; null if the config has no such stack.
const StackConfig* stack_of(const ModelConfig& config, std::string_view ours) {
  if (ours.starts_with("encoder.")) return config.encoder ? &*config.encoder : nullptr;
  if (ours.starts_with("decoder.") && !config.encoder) return nullptr;
  if (ours.starts_with("blocks.") && config.encoder) return nullptr;
  return &config;
}

/// The places of a vector of which each head has a tensor, in one layer.
void visit_heads(const TensorRule& rule, const std::string& stored, const char* ending, std::int64_t layer,
                 const AttentionConfig& attention, const std::function<void(const TensorPlace&)>& visit) {
  const bool is_of_keys = rule.ours.front().ends_with(".k_norm");
  const std::int64_t n = is_of_keys ? attention.n_kv_heads : attention.n_heads;
  for (std::int64_t head = 0; head < n; ++head) {
    visit({&rule, with_head(stored, head), {with_layer(rule.ours.front(), layer) + ending}, layer, head});
  }
}

/// What the names of a rule are numbered by: experts of a block, or streams but the first.
struct Numbered {
  std::string_view mark = "{e}";
  std::int64_t count = 0;

  Numbered(const TensorRule& rule, const StackConfig& stack, const BlockConfig* block) {
    if (rule.ours.front().find("{s}") != std::string_view::npos) {
      mark = "{s}";
      if (stack.altup) count = stack.altup->n_streams - 1;
    } else if (const MoeConfig* const moe = block != nullptr ? find<MoeConfig>(*block) : nullptr) {
      count = moe->n_experts;
    }
  }
};

/// The places of one layer.
void visit_layer(const TensorRule& rule, std::string stored, const char* ending, std::int64_t layer,
                 const StackConfig& stack, const BlockConfig* block,
                 const std::function<void(const TensorPlace&)>& visit) {
  const bool by_head = stored.find("{h}") != std::string::npos;
  const auto* const attention = by_head && block != nullptr ? find<AttentionConfig>(*block) : nullptr;
  if (attention != nullptr) visit_heads(rule, stored, ending, layer, *attention, visit);
  if (by_head) return;
  const Numbered numbered(rule, stack, block);
  const bool by_number = stored.find(numbered.mark) != std::string::npos;
  const bool stacks = !by_number && rule.ours.front().find(numbered.mark) != std::string_view::npos;
  if ((by_number || stacks) && numbered.count == 0) return;
  TensorPlace place{&rule, std::move(stored), {}, layer, {}, stacks};
  const std::string pattern = place.stored;
  const std::int64_t n = by_number || stacks ? numbered.count : 1;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    for (const std::string_view ours : rule.ours) {
      place.ours.push_back(with_replaced(with_layer(ours, layer), numbered.mark, number) + ending);
    }
    if (stacks) continue;
    place.stored = with_replaced(pattern, numbered.mark, number);
    visit(place);
    place.ours.clear();
  }
  if (stacks) visit(place);
}

}  // namespace

void for_each_place(const TensorRule& rule, std::string_view prefix, const ModelConfig& config,
                    const std::function<void(const TensorPlace&)>& visit) {
  const bool by_group = rule.stored.find("{g}") != std::string_view::npos;
  const bool by_layer = by_group || rule.stored.find("{l}") != std::string_view::npos;
  const StackConfig* const stack = stack_of(config, rule.ours.front());
  if (stack == nullptr) return;
  const std::size_t n_layers = by_layer ? stack->n_layers() : 1;
  for (const char* ending : {".weight", ".bias"}) {
    if (rule.is_buffer && std::string_view(ending) != ".bias") continue;
    if (!rule.has_ending && std::string_view(ending) != ".weight") continue;
    std::int64_t n_groups = 0;  // of blocks with parameters of their own
    for (std::size_t i = 0; i < n_layers; ++i) {
      const BlockConfig* const block = i < stack->blocks.size() ? &stack->blocks[i] : nullptr;
      if (by_layer && block != nullptr && block->same_as) continue;
      const std::string in_group = with_replaced(rule.stored, "{g}", std::to_string(n_groups++));
      if (rule.applies != nullptr && (block == nullptr || !rule.applies(*block))) continue;
      const auto layer = static_cast<std::int64_t>(i);
      const bool is_full_name = rule.is_buffer || !rule.has_ending;
      visit_layer(rule, with_layer(with_prefix(in_group, prefix), layer) + (is_full_name ? "" : ending),
                  rule.has_ending ? ending : "", layer, *stack, block, visit);
    }
  }
}

PlaceShape shape_of(const TensorPlace& place, const ModelConfig& config, const std::vector<Shape>& parts) {
  PlaceShape shape;
  shape.is_vector = parts.front().rank() == 1;
  shape.transposed = place.rule->transposed && !shape.is_vector;
  for (const Shape& part : parts) shape.rows += part[0];
  if (!shape.is_vector) shape.cols = parts.front()[1];
  const StackConfig& stack = *stack_of(config, place.rule->ours.front());
  const AttentionConfig* const attention = attention_of(stack, static_cast<std::size_t>(place.layer));
  const bool has_weight_per_head =
      attention != nullptr && attention->qk_norm && attention->qk_norm->over == QkNormConfig::Over::head_own_weight;
  if (place.stacks_experts) shape.n_stacked = static_cast<std::int64_t>(parts.size() / place.rule->ours.size());
  if (place.head) {
    shape.rows = attention->head_dim;
    shape.stored = {shape.rows};
  } else if (has_weight_per_head && place.rule->ours.front().ends_with("_norm")) {
    shape.stored = {shape.rows / attention->head_dim, attention->head_dim};
  } else if (shape.is_vector && place.rule->is_buffer) {
    shape.stored = {1, shape.rows};
  } else if (place.rule->is_convolution && !shape.is_vector) {
    const auto block = static_cast<std::size_t>(place.layer);
    const auto* const own = block < stack.blocks.size() ? find<ConvolutionConfig>(stack.blocks[block]) : nullptr;
    const std::int64_t width = own != nullptr ? own->width : shape.cols;
    shape.stored = {shape.rows, shape.cols / width, width};
  } else if (place.rule->is_4d) {
    shape.stored = {1, 1, shape.rows, 1};
  } else if (!place.rule->is_scalar) {
    const std::int64_t rows = shape.rows / shape.n_stacked;
    if (place.stacks_experts) shape.stored = {shape.n_stacked};
    if (shape.transposed) shape.stored.push_back(shape.cols);
    shape.stored.push_back(rows);
    if (!shape.is_vector && !shape.transposed) shape.stored.push_back(shape.cols);
  }
  return shape;
}

std::vector<MatrixView> views_of(const TensorPlace& place, const PlaceShape& shape, const std::byte* bytes, DType dtype,
                                 const std::vector<Shape>& parts) {
  const std::int64_t rows = shape.rows / shape.n_stacked, cols = shape.cols;
  const std::size_t per_copy = parts.size() / static_cast<std::size_t>(shape.n_stacked);
  const bool alternates = place.rule->rows == Rows::alternating && !shape.transposed && !shape.is_vector;
  const std::int64_t by_rows = shape.row_size > 0 ? shape.row_size : cols;
  const std::int64_t row_stride = shape.transposed ? 1
                                  : alternates     ? by_rows * static_cast<std::int64_t>(per_copy)
                                                   : by_rows;
  std::vector<MatrixView> views;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto copy = static_cast<std::int64_t>(i / per_copy), part = static_cast<std::int64_t>(i % per_copy);
    if (part == 0) first = 0;
    const std::byte* const own = bytes + bytes_of(dtype, copy * rows * by_rows);
    const MatrixView whole{own, dtype, rows, cols, row_stride, shape.transposed ? rows : 1};
    const std::int64_t n = parts[i][0];
    MatrixView view{alternates ? own + bytes_of(dtype, part * by_rows) : whole.at(first, 0),
                    dtype,
                    n,
                    cols,
                    row_stride,
                    whole.col_stride};
    if (shape.is_vector) view = {view.data, dtype, 1, n, n, 1};
    views.push_back(view);
    first += n;
  }
  return views;
}

std::vector<RowRun> row_runs(const TensorPlace& place, const ModelConfig& config, const std::vector<Shape>& parts) {
  if (place.head) {
    const std::int64_t n = attention_of(config, static_cast<std::size_t>(place.layer))->head_dim;
    return {{0, *place.head * n, n}};
  }
  std::int64_t n_groups = place.rule->rows == Rows::by_quarter ? 4 : 1;
  if (const AttentionConfig* const attention = attention_of(config, static_cast<std::size_t>(place.layer))) {
    if (place.rule->rows == Rows::by_kv_head) n_groups = attention->n_kv_heads;
    if (place.rule->rows == Rows::by_head) n_groups = attention->n_heads;
  }
  const auto layer = static_cast<std::size_t>(place.layer);
  const auto* const net = layer < config.blocks.size() ? find<DeltaNetConfig>(config.blocks[layer]) : nullptr;
  if (place.rule->rows == Rows::by_kv_head && net != nullptr) n_groups = net->n_key_heads;
  std::vector<RowRun> runs;
  for (std::int64_t group = 0; group < n_groups; ++group) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const std::int64_t count = parts[part][0] / n_groups;
      runs.push_back({part, group * count, count});
    }
  }
  return runs;
}

}  // namespace vitrine
