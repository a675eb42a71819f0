// The objects that generation, scoring and prediction use.
#pragma once

#include <atomic>

#include "base/error.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

class ModelStore;
class PrefixCache;
struct Speculation;

/// The maximum number of tokens of one prompt in a forward, unless a caller chooses another. It bounds the memory of
/// activations.
constexpr std::int64_t kPrefillChunk = 256;

/// All pointers are borrowed. `tokenizer`, `interrupt` and `taps` may be null.
struct GenerateContext {
  const Model* model = nullptr;
  ThreadPool* pool = nullptr;
  const Kernels* kernels = nullptr;
  const Tokenizer* tokenizer = nullptr;
  KvTypes kv_types{};
  const std::atomic<bool>* interrupt = nullptr;
  Taps* taps = nullptr;  ///< They see every pass, with the rows of all its sequences.
  KvMemory* kv_memory = &system_kv_memory();
  Compute compute = Compute::automatic;
  Modifiers modifiers{};               ///< Of all sequences.
  PrefixCache* prefixes = nullptr;     ///< If not null, sequences of an engine share common prefixes.
  ModelStore* store = nullptr;         ///< If not null, sequences begin with prefixes on disk, and add to them.
  Speculation* speculation = nullptr;  ///< If not null, sequences of an engine read proposed ids.
  CallerPoll* poll = nullptr;
  ModelSplit* split = nullptr;  ///< As in Pass.
  /// States of prompts are kept every so many tokens, for prompts that begin alike.
  std::int64_t state_every = KvCache::kSnapshotInterval;
  std::int64_t chunk = kPrefillChunk;  ///< Texts are read in passes of at most so many tokens.

  /// Runs a pass, in which all segments have these modifiers.
  void forward(Pass& pass, const Tokens& tokens) const {
    set_modifiers(pass);
    model->forward(pass, tokens);
  }
  void set_modifiers(Pass& pass) const {
    for (std::vector<Segment>* segments : {&pass.segments, &pass.sources}) {
      for (Segment& segment : *segments) segment.modifiers = modifiers;
    }
  }
  /// A cache for a sequence of at most `capacity` tokens, and for a source of `n_source` tokens, if there is one.
  KvCache make_cache(std::int64_t capacity, std::size_t n_source = 0, KvReach reach = KvReach::windows) const {
    KvCache cache = model->make_cache(capacity, kv_types, *kv_memory, reach);
    if (n_source > 0) {
      cache.set_source(model->make_source_cache(static_cast<std::int64_t>(n_source), kv_types, *kv_memory));
    }
    return cache;
  }
  Pass make_pass(Arena& arena, std::vector<Segment> segments = {}) const {
    Pass pass{{*pool, *kernels, arena, interrupt, false, compute, poll}, std::move(segments), {}, taps, kv_types};
    pass.split = split;
    return pass;
  }
  /// Throws BadInput for ids of a text that are outside the vocabulary, and for placeholders.
  void check_ids(std::span<const std::int32_t> ids) const {
    model->refuse_placeholders(ids);
    check_ids(ids, model->config().vocab_size);
  }
  /// Throws BadInput for a source that is empty, too long, or has unknown ids, and for any source if the model has no
  /// encoder.
  void check_source(std::span<const std::int32_t> ids) const {
    const auto& encoder = model->config().encoder;
    if (!encoder && ids.empty()) return;
    if (!encoder) throw BadInput("source", "the model has no encoder to read it");
    if (ids.empty()) throw BadInput("source", "expected at least one token for the encoder");
    if (static_cast<std::int64_t>(ids.size()) > encoder->max_seq_len) {
      throw BadInput("source", "the text has {} tokens, the encoder's context is {}", ids.size(), encoder->max_seq_len);
    }
    check_ids(ids, encoder->vocab_size);
  }
  static void check_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size) {
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocab_size) throw BadInput("ids", "expected ids from 0 to {}, got {}", vocab_size - 1, id);
    }
  }
};

}  // namespace vitrine
