// The tape: a record of the ops of a forward, for reverse-mode differentiation.
//
// Every op that runs with a tape records its inputs, its output, and a function that computes the gradients of the
// inputs (a vector-Jacobian product) from that of the output. unwind() calls these functions in reverse order. A
// gradient is allocated when it is first used, and released as soon as the op that computed its value has been unwound.
//
//   forward    embed ─▶ x ─▶ norm ─▶ h ─▶ linear ─▶ y … loss          a list of records, no graph
//   unwind     embed ◀─ x'◀─ norm ◀─ h'◀─ linear ◀─ y'… 1
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/gradients.h"
#include "tensor/memory.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Values are identified by address. A value must therefore not move until its record is unwound, and two values of one
/// tape must not begin at the same element. (A reshaped value is the same value.) Not thread-safe.
class Tape {
 public:
  using Backward = std::function<void()>;

  /// With `counted` (a dry run), the memory of the values' gradients is counted but not allocated.
  explicit Tape(Gradients& params, CountedMemory* counted = nullptr) : params_(params), counted_(counted) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Records that `op` has computed `output` from `inputs`. `backward` adds to grad(input) for each input and to the
  /// gradients of the op's parameters. `backward` is not called if no gradient of `output` has been computed. Throws
  /// InternalError if an input was not computed by an op of this tape: the op that computed it has no backward, so
  /// gradients would be lost silently.
  void record(std::string_view op, std::span<const Tensor> inputs, const Tensor& output, Backward backward);
  void record(std::string_view op, std::initializer_list<Tensor> inputs, const Tensor& output, Backward backward) {
    record(op, std::span(inputs.begin(), inputs.size()), output, std::move(backward));
  }
  /// Makes unwind() call `receive` with the gradient of `value` from the ops that are recorded after this call.
  void watch(const Tensor& value, std::function<void(const Tensor& grad)> receive);

  bool knows(const Tensor& value) const { return values_.contains(value.data); }
  /// The gradient of a value so far, to read or add to. Initially zero.
  Tensor grad(const Tensor& value);
  /// The gradient of a parameter; no data if it is not trained. In a dry run every parameter has a gradient.
  Tensor grad(const Param& param) const {
    if (counted_ != nullptr) return {reinterpret_cast<float*>(CountedMemory::kFirst), param.shape};
    return params_.of(param);
  }

  std::size_t mark() const { return records_.size(); }
  /// Calls the backward of every record since the mark, in reverse order, and removes these records.
  void unwind(std::size_t mark = 0);
  /// The same for all records, which remain: the gradients are released, and the next call begins with new ones. A
  /// watched value without a gradient is left out.
  void replay();
  /// Removes all records. Use it after a pass has thrown.
  void clear();

 private:
  struct Buffer {
    MemoryBlock memory;
    std::int64_t size = 0;  // floats

    float* data() const { return reinterpret_cast<float*>(memory.get()); }
  };
  struct Record {
    const float* value;  // the op's output, or the watched value
    bool is_op;
    Backward backward;
  };

  Buffer take(std::int64_t n);
  void release(Buffer& buffer) {
    if (buffer.memory) spare_.push_back(std::exchange(buffer, {}));
  }

  Gradients& params_;
  CountedMemory* counted_;
  std::vector<Record> records_;
  std::unordered_map<const float*, Buffer> values_;  // known values and their gradients, if allocated
  std::vector<Buffer> spare_;
};

}  // namespace vitrine
