#include "inspect/input_squares.h"

#include <algorithm>

#include "checkpoint/gguf/plan.h"
#include "inspect/text_pass.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr std::int64_t kColumns = 64;  // of a thread at a time, at least

}  // namespace

InputCollector::InputCollector(const GenerateContext& context, const Checkpoint& checkpoint, bool head)
    : context_(context), head_(head) {
  const std::string where = "imatrix";
  const GgufArchitecture& architecture = gguf_architecture_of(checkpoint.family, where);
  const std::string_view head_name = checkpoint.model->config().head.tied ? "token_embd.weight" : "output.weight";
  for (const PlannedTensor& tensor : plan_tensors(architecture, checkpoint, DType::f32, where)) {
    const bool is_inside = tensor.name.starts_with("blk.");
    for (std::int64_t i = 0; i < tensor.n_copies; ++i) {  // the parts of a fused tensor share their input
      const Param& param = *tensor.parts[static_cast<std::size_t>(i)].param;
      if (param.shape.rank() != 2 || !(is_inside || (head && tensor.name == head_name))) continue;
      places_[&param] = {tensor.name, i, tensor.cols, {}, 0};
      InputSquares& squares = matrix_.tensors[tensor.name];
      squares.sums.resize(static_cast<std::size_t>(tensor.n_copies * tensor.cols));
      squares.counts.resize(static_cast<std::size_t>(tensor.n_copies));
    }
  }
}

void InputCollector::add(std::span<const std::int32_t> window) {
  Arena arena;
  Ledger ledger;
  ledger.watch([&](const LedgerOp& op) { add_input(op); });
  for (auto& [param, place] : places_) {
    place.sums.assign(static_cast<std::size_t>(place.cols), 0.0F);
    place.count = 0;
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
  for (const auto& [param, place] : places_) {
    InputSquares& squares = matrix_.tensors.at(place.tensor);
    squares.counts[static_cast<std::size_t>(place.copy)] += place.count;
    for (std::size_t i = 0; i < place.sums.size(); ++i) {
      squares.sums[static_cast<std::size_t>(place.copy * place.cols) + i] += static_cast<double>(place.sums[i]);
    }
  }
  ++matrix_.n_chunks;
  matrix_.chunk_size = static_cast<std::int64_t>(window.size());
}

void InputCollector::add_input(const LedgerOp& op) {
  const auto it = places_.find(op.weight);
  if (op.call.kind != OpKind::linear || it == places_.end()) return;
  Place& place = it->second;
  const Tensor& x = op.inputs.front();
  place.count += x.rows();
  context_.pool->parallel_for((place.cols + kColumns - 1) / kColumns, 1,
                              [&](std::int64_t begin, std::int64_t end, int) {
                                const std::int64_t first = begin * kColumns;
                                const std::int64_t n = std::min(end * kColumns, place.cols) - first;
                                for (std::int64_t row = 0; row < x.rows(); ++row) {
                                  const float* const part = x.row(row) + first;
                                  context_.kernels->multiply_add(part, part, n, place.sums.data() + first);
                                }
                              });
}

ImportanceMatrix InputCollector::result() const { return matrix_; }

}  // namespace vitrine
