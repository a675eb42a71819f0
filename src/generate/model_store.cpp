#include "generate/model_store.h"

#include <bit>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/version.h"
#include "kernels/widen_row.h"
#include "model/describe.h"
#include "store/content_hash.h"

namespace vitrine {
namespace {

/// A change of what a block has, or of the bits of a forward, changes this or the version of vitrine.
constexpr std::string_view kFormat = "vitrine prefix 1";

void add(double number, Digest& digest) { digest.update(std::bit_cast<std::uint64_t>(number)); }
void add_signed(std::int64_t number, Digest& digest) { digest.update(static_cast<std::uint64_t>(number)); }

void check(const Checkpoint& checkpoint, const GenerateContext& context) {
  const ModelConfig& config = context.model->config();
  if (config.encoder) {
    throw Unsupported("prefix store",
                      "the model is an encoder–decoder: the keys and values of its source are not stored");
  }
  if (is_bidirectional(config)) throw Unsupported("prefix store", "the model reads texts at once: it has no cache");
  if (context.split != nullptr)
    throw Unsupported("prefix store", "the model is split: each process has a part of its cache");
  if (checkpoint.files.empty()) throw Unsupported("prefix store", "the weights of the model are not those of files");
}

/// The type and the values of a matrix, however it is stored.
void add(const Param& param, Digest& digest) {
  const MatrixView& view = param.view;
  digest.update_text(name_of(view.dtype));
  digest.update(static_cast<std::uint64_t>(view.rows));
  digest.update(static_cast<std::uint64_t>(view.cols));
  std::vector<float> row(static_cast<std::size_t>(view.cols));
  for (std::int64_t i = 0; i < view.rows; ++i) {
    const std::int64_t n = view.col_stride == 1 ? view.cols : 1;  // that widen_row takes at a time
    for (std::int64_t j = 0; j < view.cols; j += n) {
      widen_row(default_kernels(), view.col_range(j, n), i, n, row.data() + j);
    }
    digest.update(std::as_bytes(std::span(row)));
  }
}

void add(const std::vector<double>& numbers, Digest& digest) {
  digest.update(std::uint64_t{numbers.size()});
  for (const double number : numbers) add(number, digest);
}

void add(const Adapter& adapter, Digest& digest) {
  digest.update_text("adapter");
  digest.update(std::uint64_t{adapter.maps.size()});
  for (const auto& [name, map] : adapter.maps) {
    digest.update_text(name);
    add(*map.a, digest);
    add(map.b, digest);
    add(map.scale, digest);
    digest.update(std::uint64_t{map.magnitudes.has_value()});
    if (!map.magnitudes) continue;
    add(map.magnitudes->vector, digest);
    for (const auto* numbers : {&map.magnitudes->squares, &map.magnitudes->products, &map.magnitudes->added_squares}) {
      add(*numbers, digest);
    }
  }
}

void add(const ControlVector& control, Digest& digest) {
  digest.update_text("control");
  digest.update(std::uint64_t{control.directions.size()});
  for (const auto& [layer, direction] : control.directions) {
    add_signed(layer, digest);
    digest.update(std::uint64_t{direction.size()});
    digest.update(std::as_bytes(std::span(direction)));
  }
}

}  // namespace

ModelStore::ModelStore(PrefixStore& store, const Checkpoint& checkpoint, const GenerateContext& context)
    : store_(store) {
  check(checkpoint, context);
  Digest digest = Digest::sha256();
  digest.update_text(kFormat);
  digest.update_text(version());
  digest.update(content_hash(checkpoint.files, *context.pool, store));
  digest.update_text(checkpoint.family);
  digest.update_text(all_fields_of(context.model->config()));
  digest.update(static_cast<std::uint64_t>(context.compute));
  digest.update(static_cast<std::uint64_t>(context.kv_types.keys));
  digest.update(static_cast<std::uint64_t>(context.kv_types.values));
  model_ = digest.finish_sha256();
}

template <class Modifier>
const Sha256& ModelStore::hash_of(const Modifier& modifier) {
  const auto known = modifiers_.find(modifier.identity);
  if (known != modifiers_.end()) return known->second;
  Digest digest = Digest::sha256();
  add(modifier, digest);
  return modifiers_.emplace(modifier.identity, digest.finish_sha256()).first->second;
}

BlockName ModelStore::root(const PrefixKey& key, const Modifiers& modifiers) {
  Digest digest = Digest::sha256();
  digest.update(model_);
  digest.update_text(key.owner);
  add_signed(key.planned_length, digest);
  digest.update(std::uint64_t{modifiers.adapters.size()});
  for (const auto& [adapter, scale] : modifiers.adapters) {
    digest.update(hash_of(*adapter));
    add(scale, digest);
  }
  digest.update(std::uint64_t{modifiers.controls.size()});
  for (const auto& [control, scale, layers] : modifiers.controls) {
    digest.update(hash_of(*control));
    add(scale, digest);
    add_signed(layers.first, digest);
    add_signed(layers.last, digest);
  }
  return digest.finish_sha256();
}

}  // namespace vitrine
