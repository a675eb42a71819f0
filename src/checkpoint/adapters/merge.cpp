#include "checkpoint/adapters/merge.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/adapters/adapter.h"
#include "checkpoint/param_rows.h"
#include "kernels/kernels.h"
#include "tensor/zero_memory.h"

namespace vitrine {
namespace {

/// An adapter's map, with its values as floats.
struct Change {
  std::vector<float> a;  // [r, in]
  const LowRank* low;
  double scale;                // s
  std::vector<float> factors;  // DoRA
};

std::vector<Change> changes_of(AppliedAdapters adapters, std::string_view weight) {
  std::vector<Change> changes;
  for (const AppliedAdapter& applied : adapters) {
    const LowRank* const low = applied.adapter->find(weight);
    if (low == nullptr) continue;
    Change change{{}, low, low->scale * applied.scale, {}};
    const MatrixView& a = low->a->view;
    change.a.resize(static_cast<std::size_t>(a.rows * a.cols));
    for (std::int64_t row = 0; row < a.rows; ++row) {
      read_row(a, row,
               std::span(change.a).subspan(static_cast<std::size_t>(row * a.cols), static_cast<std::size_t>(a.cols)));
    }
    if (low->magnitudes) {
      std::vector<float> m(static_cast<std::size_t>(low->b.view.rows));
      read_row(low->magnitudes->vector.view, 0, m);
      change.factors = low->magnitudes->factors(m.data(), change.scale);
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

/// One row of the merged weight; `w` holds that of the base.
void merge_row(const Kernels& k, const std::vector<Change>& changes, std::int64_t row, std::span<float> w) {
  const auto n = static_cast<std::int64_t>(w.size());
  std::vector<float> added(w.size());
  for (const Change& change : changes) {
    std::vector<float> b(static_cast<std::size_t>(change.low->rank()));
    read_row(change.low->b.view, row, b);
    std::fill(added.begin(), added.end(), 0.0f);
    for (std::size_t i = 0; i < b.size(); ++i) {
      const auto factor = static_cast<float>(change.scale * static_cast<double>(b[i]));
      k.add_scaled(change.a.data() + i * w.size(), n, factor, added.data());
    }
    k.add(w.data(), added.data(), n, w.data());
    if (change.factors.empty()) continue;
    for (float& x : w) x *= change.factors[static_cast<std::size_t>(row)];
  }
}

/// The merged weight, dense, in memory that is added to `storage`.
MatrixView merged(const MatrixView& base, const std::vector<Change>& changes, DType type, ThreadPool& pool,
                  std::vector<std::shared_ptr<const void>>& storage) {
  const Kernels& k = default_kernels();
  const auto memory = std::make_shared<ZeroMemory>(base.rows * base.cols * size_of(type), "merged weights");
  pool.parallel_for(base.rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> w(static_cast<std::size_t>(base.cols));
    for (std::int64_t row = begin; row < end; ++row) {
      read_row(base, row, w);
      merge_row(k, changes, row, w);
      std::byte* const to = memory->bytes() + row * base.cols * size_of(type);
      if (type == DType::f32) {
        std::copy(w.begin(), w.end(), reinterpret_cast<float*>(to));
      } else {
        k.narrow(w.data(), base.cols, type, to);
      }
    }
  });
  storage.push_back(memory);
  return {memory->bytes(), type, base.rows, base.cols, base.cols, 1};
}

}  // namespace

Checkpoint merge_adapters(const Checkpoint& base, AppliedAdapters adapters, const MergedType& type, ThreadPool& pool) {
  const Model& model = *base.model;
  ModelConfig config = model.config();
  ModelParams params = model.params();
  std::vector<std::shared_ptr<const void>> storage = {base.model};
  const auto merge = [&](Param& param, const Param& from, const std::string& name) {
    const std::vector<Change> changes = changes_of(adapters, name);
    if (changes.empty()) return false;
    param.view = merged(from.view, changes, type(from), pool, storage);
    return true;
  };
  for_each_param(config, params,
                 [&](Param& param, const std::string& name, const Shape&) { merge(param, param, name); });
  if (config.head.tied && config.has_head) {
    const Param& embed = model.params().embed;
    Param head{"unembed.weight", "", embed.shape, embed.view};
    if (merge(head, embed, "unembed.weight")) {
      if (config.encoder) throw Unsupported("unembed.weight", "the head is tied to the embedding: it cannot be merged");
      config.head.tied = false;
      params.unembed.weight = std::move(head);
    }
  }
  Checkpoint result = base;
  result.files.clear();  // they do not have the merged weights
  result.model = std::make_shared<const Model>(std::move(config), std::move(params), std::move(storage));
  return result;
}

}  // namespace vitrine
