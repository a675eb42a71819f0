#include "inspect/input_squares.h"

#include <algorithm>

#include "inspect/text_pass.h"
#include "model/params.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr std::int64_t kColumns = 64;  // of a thread at a time
constexpr std::string_view kKeysAndValuesWeight = "wkv_b.weight", kLatentNormWeight = "kv_latent_norm.weight";

}  // namespace

InputCollector::InputCollector(const GenerateContext& context, const Checkpoint& checkpoint, bool head)
    : context_(context), head_(head) {
  const std::string where = "imatrix";
  const GgufArchitecture& architecture = gguf_architecture_of(checkpoint, where);
  const ModelConfig& config = checkpoint.model->config();
  const bool is_tied = config.head.tied && !unties_head(architecture, config);
  const std::string_view head_name = is_tied ? "token_embd.weight" : "output.weight";
  std::map<std::string, const Param*> params;
  for_each_param(checkpoint.model->config(), checkpoint.model->params(),
                 [&](const Param& param, const std::string& name, const Shape&) { params.emplace(name, &param); });
  for (const PlannedTensor& tensor : plan_tensors(architecture, checkpoint, DType::f32, where)) {
    const bool is_inside = tensor.name.starts_with("blk.") && tensor.multiplies;
    for (std::int64_t i = 0; i < tensor.n_copies; ++i) {  // the parts of a fused tensor share their input
      const SourceRows& part = tensor.parts[static_cast<std::size_t>(i)];
      const Param& param = *part.param;
      if (param.shape.rank() != 2 || !(is_inside || (head && tensor.name == head_name))) continue;
      const bool is_absorbed = tensor.name.ends_with(kKeysAndValues);  // keys and values by head are never computed
      if (is_absorbed) {
        const std::string start = param.name.substr(0, param.name.size() - kKeysAndValuesWeight.size());
        add_place(tensor, i, {params.at(start + std::string(kLatentNormWeight)), 0}, true);
      } else {
        add_place(tensor, i, {&param, part.of_heads ? part.of_heads->first : 0});
      }
    }
  }
}

void InputCollector::add_place(const PlannedTensor& tensor, std::int64_t copy, const Key& key, bool is_product) {
  places_[key].push_back(
      {tensor.name, copy, tensor.cols, tensor.n_heads, tensor.parts.front().columns, is_product, {}, 0});
  InputSquares& squares = matrix_.tensors[tensor.name];
  squares.sums.resize(static_cast<std::size_t>(tensor.n_copies * tensor.n_heads * tensor.cols));
  squares.counts.resize(static_cast<std::size_t>(tensor.n_copies));
}

void InputCollector::add(std::span<const std::int32_t> window) {
  Arena arena;
  Ledger ledger;
  ledger.watch([&](const LedgerOp& op) { add_input(op); });
  for (auto& [key, places] : places_) {
    for (Place& place : places) {
      place.sums.assign(static_cast<std::size_t>(place.n_heads * place.cols), 0.0F);
      place.count = 0;
    }
  }
  const Tokens tokens(window);
  Pass pass = text_pass(context_, arena, tokens);
  pass.ledger = &ledger;
  pass.receive_hidden = [](const Tensor&) {};  // all rows pass through all blocks
  if (head_) {
    pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(window.size()),
                   [](std::int64_t, const Tensor&) {}};
  }
  context_.model->forward(pass, tokens);
  if (pass.segments[0].failure) throw error_of(*pass.segments[0].failure);
  for (const auto& [key, places] : places_) {
    for (const Place& place : places) {
      InputSquares& squares = matrix_.tensors.at(place.tensor);
      squares.counts[static_cast<std::size_t>(place.copy)] += place.count;
      for (std::size_t i = 0; i < place.sums.size(); ++i) {
        const auto from = static_cast<std::size_t>(place.columns.element(static_cast<std::int64_t>(i)));
        squares.sums[static_cast<std::size_t>(place.copy * place.cols) + i] += static_cast<double>(place.sums[from]);
      }
    }
  }
  ++matrix_.n_chunks;
  matrix_.chunk_size = static_cast<std::int64_t>(window.size());
}

void InputCollector::add_input(const LedgerOp& op) {
  const auto it = places_.find({op.part_of != nullptr ? op.part_of : op.weight, op.first_row});
  if (it == places_.end()) return;
  for (Place& place : it->second) add_input(place, op);
}

void InputCollector::add_input(Place& place, const LedgerOp& op) {
  const bool is_map = op.call.kind == OpKind::linear || op.call.kind == OpKind::heads_rows;
  if (!is_map && !place.is_product) return;
  const Tensor& x = place.is_product ? op.output : op.inputs.front();
  const std::int64_t size = x.row_size() / place.n_heads;  // a head may read only the first of its elements
  place.count += x.rows();
  context_.pool->parallel_for(place.n_heads * ((place.cols + kColumns - 1) / kColumns), 1,
                              [&](std::int64_t begin, std::int64_t end, int) {
                                for (std::int64_t i = begin; i < end; ++i) {
                                  const std::int64_t head = i % place.n_heads, first = i / place.n_heads * kColumns;
                                  const std::int64_t n = std::min(kColumns, place.cols - first);
                                  float* const sums = place.sums.data() + head * place.cols + first;
                                  for (std::int64_t row = 0; row < x.rows(); ++row) {
                                    const float* const part = x.row(row) + head * size + first;
                                    context_.kernels->multiply_add(part, part, n, sums);
                                  }
                                }
                              });
}

ImportanceMatrix InputCollector::result() const { return matrix_; }

}  // namespace vitrine
