// New adapters, which change nothing until they are trained: A is random and B is zero.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/adapters/adapter.h"
#include "tensor/zero_memory.h"

namespace vitrine {

struct NewAdapter {
  std::int64_t rank = 8;
  double alpha = 16;
  bool rslora = false;  ///< s = alpha / √rank instead of alpha / rank.
  /// Words (q, k, v, o, gate, up, down) and names of modules, or the ends of their names from a dot on. Empty: all
  /// words, which never mean a router. A module, or a parameter of all experts, that holds several maps is chosen by
  /// any of them, and as a whole.
  std::vector<std::string> targets;
  std::optional<std::vector<std::int64_t>> layers;  ///< Absent: all.

  bool operator==(const NewAdapter&) const = default;
};

/// A matrix of an adapter in memory that may be written.
struct AdapterMatrix {
  const Param* param = nullptr;
  float* values = nullptr;  ///< float32, row-major.
};

/// An adapter in memory of its own.
struct WritableAdapter {
  std::shared_ptr<LoadedAdapter> adapter;
  std::vector<AdapterMatrix> matrices;  ///< In the order of for_each_matrix, then those of `saved`.
};

/// Elements of A are uniform between ±1 / √in, as in peft (kaiming_uniform with a = √5); each is a function of the
/// seed, the matrix and its index. Throws BadInput, naming the option after `prefix`, for a rank above a side of a
/// matrix, and for a target or a layer that the model does not have.
WritableAdapter new_adapter(const Checkpoint& base, const NewAdapter& options, std::uint64_t seed,
                            const std::string& prefix = "");

/// Throws BadInput, naming the option after `prefix`, if an adapter is not the one that the options of these names
/// (rank, alpha, scaling, targets, layers) describe.
void check_options(const LoadedAdapter& adapter, const Checkpoint& base, const NewAdapter& options,
                   std::span<const std::string> names, const std::string& prefix);

/// A copy of an adapter in float32, with what it has in place of the base's head for labels. Throws Unsupported for
/// DoRA.
WritableAdapter writable_copy(const LoadedAdapter& adapter);
/// Adds copies of the parameters of the base's head for labels, unless the adapter has its own: it then replaces all of
/// them (modules_to_save). Throws BadInput, naming the option after `prefix`, if a target is a part of the head.
void add_head(WritableAdapter& adapter, const Model& base, const std::string& prefix);

}  // namespace vitrine
