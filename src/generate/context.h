// The objects that generation, scoring and prediction use.
#pragma once

#include <atomic>

#include "base/error.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// All pointers are borrowed. `tokenizer`, `interrupt` and `taps` may be null.
struct GenerateContext {
  const Model* model = nullptr;
  ThreadPool* pool = nullptr;
  const Kernels* kernels = nullptr;
  const Tokenizer* tokenizer = nullptr;
  DType kv_dtype = DType::f32;
  const std::atomic<bool>* interrupt = nullptr;
  Taps* taps = nullptr;  ///< They see every pass, with the rows of all its sequences.
  KvMemory* kv_memory = &system_kv_memory();

  KvCache make_cache(std::int64_t capacity) const { return model->make_cache(capacity, kv_dtype, *kv_memory); }
  Pass make_pass(Arena& arena, std::vector<Segment> segments = {}) const {
    return {{*pool, *kernels, arena, interrupt}, std::move(segments), {}, taps, kv_dtype};
  }
  /// Throws BadInput for ids outside the vocabulary.
  void check_ids(std::span<const std::int32_t> ids) const {
    const std::int64_t vocab_size = model->config().vocab_size;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocab_size) throw BadInput("ids", "expected ids from 0 to {}, got {}", vocab_size - 1, id);
    }
  }
};

/// The maximum number of tokens of one prompt in a forward. It bounds the memory of activations.
constexpr std::int64_t kPrefillChunk = 256;

}  // namespace vitrine
