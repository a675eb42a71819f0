// What changes the forward of a sequence, or reads it: low-rank adapters (LoRA), control vectors (steering vectors) and
// dictionaries of features. The model is not changed.
//
//   control vector   blocks.N.hook_resid_post += v_N,  v_N = Σ float(scale) · direction_N, in the order of the controls
//
// The sum v_N is computed in float32 and added once, so the values are those of an edit of the site. Sources: Turner et
// al. 2023 (activation addition); Zou et al. 2023 (representation engineering); ggml-org/llama.cpp,
// src/llama-adapter.cpp, for the file format.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pass/adapter.h"
#include "pass/dictionary.h"

namespace vitrine {

/// Directions in the residual stream, by layer: `[d]` of the stream after the layer.
struct ControlVector {
  std::map<int, std::vector<float>> directions;
  std::string model_hint;  ///< What the file says about its model; "" if it says nothing.
  std::uint64_t identity = new_identity();

  /// Null if the layer has none.
  const std::vector<float>* find(int layer) const {
    const auto it = directions.find(layer);
    return it != directions.end() ? &it->second : nullptr;
  }
};

/// Layers from `first` to `last`, both included.
struct LayerRange {
  int first = 0, last = std::numeric_limits<int>::max();

  bool has(int layer) const { return first <= layer && layer <= last; }
  auto operator<=>(const LayerRange&) const = default;
};

/// A control vector in use.
struct AppliedControl {
  std::shared_ptr<const ControlVector> control;
  double scale = 1;
  LayerRange layers{};

  /// Null if it does not change the stream after the layer.
  const std::vector<float>* direction_of(int layer) const { return layers.has(layer) ? control->find(layer) : nullptr; }
  bool operator==(const AppliedControl&) const = default;
};

using AppliedControls = std::span<const AppliedControl>;

/// What names a modifier after it no longer exists.
struct ModifierKey {
  std::uint64_t identity = 0;
  double scale = 1;
  LayerRange layers{};

  auto operator<=>(const ModifierKey&) const = default;
};

/// All that changes a sequence. A view: the lists outlive the pass.
struct Modifiers {
  AppliedAdapters adapters{};
  AppliedControls controls{};
  AppliedDictionaries dictionaries{};

  bool empty() const { return adapters.empty() && controls.empty() && dictionaries.empty(); }
};
bool operator==(const Modifiers& a, const Modifiers& b);

/// Two sequences have equal keys if and only if their modifiers compute the same keys and values: dictionaries that
/// only read have none, and those that replace a value are told apart.
std::vector<ModifierKey> keys_of(const Modifiers& modifiers);

/// The lists of a view.
struct ModifierList {
  std::vector<AppliedAdapter> adapters{};
  std::vector<AppliedControl> controls{};
  std::vector<AppliedDictionary> dictionaries{};

  bool empty() const { return adapters.empty() && controls.empty() && dictionaries.empty(); }
  operator Modifiers() const { return {adapters, controls, dictionaries}; }
  bool operator==(const ModifierList&) const = default;
};

}  // namespace vitrine
