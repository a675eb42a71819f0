// What a layer is made of that replaces the stream by its output (RNN, LSTM, GRU, a dense layer), where a block of a
// residual stack adds to it. Each kind has a config with its width(), its parameters, and the functions
// for_each_field, site_table, check, list_params and forward, as in perceptron.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/param_list.h"
#include "ops/recurrent.h"

namespace vitrine {

/// Where a layer is in its stack, and what it reads.
struct LayerPlace {
  std::string prefix;         ///< Of the names of its stack's parameters: "encoder.", "decoder." or "".
  std::int64_t layer = 0;     ///< Its number in the stack.
  std::int64_t d_in = 0;      ///< Elements of a row of its input.
  std::int64_t d_source = 0;  ///< Of the encoder's output that the stack reads; 0: none.
  std::int64_t d_states = 0;  ///< Of the state of the encoder's layer of the same number; 0: none.
};

/// The last states of a layer, by segment.
struct LayerStates {
  CellStates forward, reverse;
};

/// Those of all layers of a stack. A tape shares them; null: none.
using SharedStates = std::shared_ptr<const std::vector<LayerStates>>;

/// What a layer reads besides the stream, and what it reports.
struct LayerContext {
  Tensor encoded;                ///< `[S, d_encoder]`: the encoder's output; no data if caches hold it.
  SharedStates source_states{};  ///< The last states of the encoder's layers; null without a recurrent encoder.
  SharedStates last_states{};    ///< Receive those of this stack's layers; null: nothing.
};

}  // namespace vitrine
