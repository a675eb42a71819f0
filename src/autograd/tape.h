// What a forward did, so that it can be gone through backward.
//
// Every op that runs with a tape records what it made, of what, and a function that adds to the gradients of its
// operands what the gradient of its result asks for. unwind() calls these functions in reverse. A gradient comes into
// being when it is first added to, and is given back as soon as the op that made its value is done.
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
#include <vector>

#include "autograd/gradients.h"
#include "tensor/memory.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A value is known by its address, so it must stand where it is until its record is unwound, and two values of one
/// tape never share a first element. (A reshaped value is the same value.) Used by one thread.
class Tape {
 public:
  using Backward = std::function<void()>;

  /// With `counted`, the gradients of values are shapes whose memory is counted and not there.
  explicit Tape(Gradients& params, CountedMemory* counted = nullptr) : params_(params), counted_(counted) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// `op` has made `output` of `inputs`. `backward` adds to grad(input) for each of them, and to the gradients of its
  /// parameters; it is not called where nothing asked for the output's gradient. Throws InternalError, with the op's
  /// name, where an input was made by no op of this tape: that one has no backward, and gradients would end there
  /// unseen.
  void record(std::string_view op, std::span<const Tensor> inputs, const Tensor& output, Backward backward);
  void record(std::string_view op, std::initializer_list<Tensor> inputs, const Tensor& output, Backward backward) {
    record(op, std::span(inputs.begin(), inputs.size()), output, std::move(backward));
  }
  /// `see` is to be called with the whole gradient of `value`, behind the ops that use it from here on.
  void watch(const Tensor& value, std::function<void(const Tensor& grad)> see);

  bool knows(const Tensor& value) const { return values_.contains(value.data); }
  /// The gradient of a value so far, to be read or added to; zeros at first.
  Tensor grad(const Tensor& value);
  /// The gradient of a parameter; no data where it does not learn. In a run of shapes every parameter learns.
  Tensor grad(const Param& param) const {
    if (counted_ != nullptr) return {reinterpret_cast<float*>(CountedMemory::kFirst), param.shape};
    return params_.of(param);
  }

  std::size_t mark() const { return records_.size(); }
  /// Goes backward over what was recorded since the mark, and forgets it.
  void unwind(std::size_t mark = 0);
  /// Forgets everything that was recorded; for a tape whose pass has thrown.
  void clear();

 private:
  struct Buffer {
    MemoryBlock memory;
    std::int64_t size = 0;  // floats

    float* data() const { return reinterpret_cast<float*>(memory.get()); }
  };
  struct Record {
    const float* value;  // what it made or watches
    bool makes;
    Backward backward;
  };

  Buffer take(std::int64_t n);

  Gradients& params_;
  CountedMemory* counted_;
  std::vector<Record> records_;
  std::unordered_map<const float*, Buffer> values_;  // known values; no data where there is no gradient yet
  std::vector<Buffer> spare_;
};

}  // namespace vitrine
