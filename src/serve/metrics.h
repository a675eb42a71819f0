// Counters, gauges and histograms of the server, as Prometheus reads them.
//
// Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "store/prefix_store.h"

namespace vitrine {

/// Durations in seconds, counted in buckets with upper bounds from 1 ms to 2 minutes.
class Histogram {
 public:
  static constexpr std::array<double, 16> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                     0.5,   1,      2.5,   5,    10,    30,   60,  120};

  void observe(double seconds);
  /// Appends its lines, with a label in front of the bucket's.
  void write(const std::string& name, const std::string& label, std::string& text) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

/// A text that threads set and read.
class SharedText {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// Of a model, also of one that has left. All members may be used from any thread.
struct Metrics {
  using Number = std::atomic<std::int64_t>;

  /// Requests for texts and vectors: all, and those whose client went away, and those that the queue had no place for.
  Number requests = 0, cancelled = 0, rejected = 0;
  Number texts = 0;  ///< Of which vectors, classes or scores were made.
  Number prompt_tokens = 0, generated_tokens = 0, prefix_cache_hit_tokens = 0;
  SharedText draft_method;  ///< Of the two numbers below; "": tokens are decoded one by one.
  Number draft_tokens = 0, draft_tokens_accepted = 0;
  std::shared_ptr<const PrefixStore> prefix_store;  ///< Null: there is none. Set before the others.
  Number prefix_store_hit_tokens = 0;
  Number preemptions = 0;           ///< Sequences that lost their KV cache to others for a while.
  Number running = 0, waiting = 0;  ///< Requests.
  Number kv_used_bytes = 0, kv_capacity_bytes = 0;
  Histogram queue, time_to_first_token, inter_token;
};

/// The numbers of a model in a report.
struct ModelMetrics {
  std::string model;
  const Metrics* metrics;
  std::int64_t n_loads = 0, n_unloads = 0;
};
/// All numbers, with the label `model`.
std::string metrics_text(std::span<const ModelMetrics> models);

}  // namespace vitrine
