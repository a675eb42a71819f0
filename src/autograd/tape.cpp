#include "autograd/tape.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "parallel/in_loop.h"

namespace vitrine {
namespace {

constexpr std::int64_t kAlignment = 16;  // floats

}  // namespace

void Tape::record(std::string_view op, std::span<const Tensor> inputs, const Tensor& output, Backward backward) {
  for (const Tensor& input : inputs) {
    if (!knows(input)) throw InternalError(op, "an input was computed by an op without a backward");
  }
  if (!values_.emplace(output.data, Buffer{}).second) throw InternalError(op, "the output is already on the tape");
  records_.push_back({output.data, true, std::move(backward)});
}

void Tape::watch(const Tensor& value, std::function<void(const Tensor& grad)> receive) {
  if (!knows(value)) throw InternalError("tape", "a watched value was computed by an op without a backward");
  records_.push_back({value.data, false, [this, value, receive = std::move(receive)] { receive(grad(value)); }});
}

Tensor Tape::grad(const Tensor& value) {
  const auto it = values_.find(value.data);
  if (it == values_.end()) throw InternalError("tape", "the value is not on the tape");
  if (!it->second.memory) {
    if (in_parallel_loop())
      throw InternalError("tape", "a loop asked first for a gradient: ask before the loop begins");
    it->second = take(value.count());
    if (counted_ == nullptr) std::fill_n(it->second.data(), value.count(), 0.0f);
  }
  return {it->second.data(), value.shape};
}

/// A spare buffer of at most 1.5 times the size, or a new buffer.
Tape::Buffer Tape::take(std::int64_t n) {
  const std::int64_t size = round_up(n, kAlignment);
  const auto it = std::find_if(spare_.begin(), spare_.end(),
                               [&](const Buffer& b) { return b.size >= size && b.size - size <= size / 2; });
  if (it != spare_.end()) {
    Buffer buffer = std::move(*it);
    spare_.erase(it);
    return buffer;
  }
  const std::int64_t bytes = size * static_cast<std::int64_t>(sizeof(float));
  Buffer buffer{take_memory(bytes, counted_), size};
  if (!buffer.memory) throw OutOfCapacity("tape", "no memory for {} bytes of gradients", bytes);
  return buffer;
}

void Tape::unwind(std::size_t mark) {
  while (records_.size() > mark) {
    const Record record = std::move(records_.back());
    records_.pop_back();
    const bool has_gradient = values_.at(record.value).memory != nullptr;
    if (has_gradient || !record.is_op) record.backward();
    if (!record.is_op) continue;
    const auto it = values_.find(record.value);
    release(it->second);
    values_.erase(it);
  }
}

void Tape::replay() {
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    Buffer& gradient = values_.at(record->value);
    if (!gradient.memory) continue;
    record->backward();
    if (record->is_op) release(gradient);
  }
}

void Tape::clear() {
  records_.clear();
  for (auto& [value, buffer] : values_) release(buffer);
  values_.clear();
}

}  // namespace vitrine
