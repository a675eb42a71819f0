// Running models in tests: logits and sites of a text, for every chunk size, number of threads and instruction set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "model/model.h"

namespace vitrine::test {

/// A recorded value.
struct Value {
  Shape shape;
  std::vector<float> data;
};

/// Compares bits: NaN equals NaN, +0 differs from −0.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// Taps that record the sites chosen by globs (none: the default set; `!` before a glob excludes its matches). With
/// Replace::by_itself they also write each value back unchanged.
class Probe : public Taps {
 public:
  enum class Replace { nothing, by_itself };

  Probe(const Model&, std::vector<std::string> globs = {}, Replace replace = Replace::nothing);
  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  bool wants_gradient(const SiteId& id) const override { return ask_gradients && wants(id); }
  void visit_gradient(Pass& pass, const SiteId& id, const Tensor& gradient) override;

  bool ask_gradients = false;
  std::map<std::string, Value> values, gradients;
  std::vector<std::string> order;  ///< Names in the order of the visits.

 private:
  std::vector<std::string> globs_;
  mutable std::vector<std::optional<bool>> chosen_;  // filled when a site is first looked up
  Replace replace_;
};

/// How to run.
struct RunOptions {
  const Kernels* kernels = &default_kernels();
  int threads = 1;
  Taps* taps = nullptr;
  KvTypes kv_types{};
  Compute compute = Compute::automatic;
  KvMemory* kv_memory = &system_kv_memory();
};

/// Logits of all positions, flat [T · vocab_size], in one forward without a cache.
std::vector<float> logits_of(const Model& model, std::span<const std::int32_t> ids, const RunOptions& o = {});
/// The same in chunks of `chunk` tokens, with a KV cache.
std::vector<float> chunked_logits_of(const Model& model, std::span<const std::int32_t> ids, std::int64_t chunk,
                                     const RunOptions& o = {});

/// n ids from 0 to vocab_size − 1, in an irregular order.
std::vector<std::int32_t> some_ids(const Model& model, std::int64_t n, std::uint64_t seed = 1);

/// The names of all golden cases in tests/goldens.
std::vector<std::string> golden_cases();
/// The checkpoint of a golden case, and its recorded sites.
Checkpoint golden_checkpoint(const std::string& name);
std::map<std::string, Value> golden_values(const std::string& name);
std::vector<std::int32_t> golden_ids(const std::string& name);

}  // namespace vitrine::test
