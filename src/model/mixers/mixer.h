// What a kind of sublayer is made of. Attention, the FFN and its relatives each have a folder next to this file; a new
// kind, a mixer of tokens or of features, is one more folder, and one more name in model/sublayers.h.
//
// A kind has a config `Kind` (plain data, with ==) that names its parameters, `Kind::Params`, and its own name,
// `Kind::kName`, and these functions, which the rest of the model finds by overload resolution; where one is missing,
// the compiler says so:
//
//   void for_each_field(Kind&, visit)                                  the fields of its config (base/fields.h)
//   constexpr SublayerNames names_of(const Kind&)                      its sites and parameters are called after these
//   const SiteTable& site_table(const Kind&)                           its sites
//   void check(std::string_view where, const Kind&)                    throws BadInput for sizes out of range
//   void list_params(ParamList&, at, const Kind&, Params&, Widths)     lists its parameters (model/param_list.h)
//   CacheLayerConfig cache_layer(const Kind&)                          what it keeps of earlier tokens
//   void tap_input(Pass&, BlockSite, const Kind&, SublayerInput&)      taps the stream before the norm
//   Tensor forward(Pass&, BlockSite, const Kind&, const Params&, const SublayerInput&)
//   std::optional<double> gguf_word(const Kind&, std::string_view)     a number of GGUF's metadata, by our name
//   void divide(WeightDivider&, Kind&, Params&)                        tensor parallelism, or a refusal by name
//
// A kind with heads also overloads head_outputs(), a recurrence recurrent_heads(), and one whose number of parameters
// varies unset_params().
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/position_scores.h"
#include "ops/rope.h"
#include "ops/state_scan.h"
#include "pass/pass.h"

namespace vitrine {

/// The sites of the sum of the stream and a sublayer's output.
struct SumSites {
  std::optional<Site> sum;  ///< Absent in the middle of a parallel block.
  NormSites norm;           ///< Of the sum.
  Site normalized;
};

/// What a sublayer's sites and parameters are called.
struct SublayerNames {
  std::string_view prefix;  ///< Of its parameters and sites: `attn`.
  std::string_view role;    ///< In messages and descriptions: `attention`.
  Site in, out;             ///< The stream as its input, and its output, as it is added to the stream.
  NormSites pre, post;
  int norm = 1;  ///< Its norms are `ln1`, or `ln2` after the sublayer that mixes tokens.
  /// Once a pass has come here, what the sublayer keeps of its tokens is in the cache. Absent: with its output.
  std::optional<Site> kept{};
  /// The stream before it, with the output of a sublayer before it; and after it, if it is the last of the block.
  SumSites mid{Site::resid_mid, norms::mid, Site::normalized_resid_mid};
  SumSites last{Site::resid_post, norms::post, Site::normalized_resid_post};
  bool is_cross = false;  ///< Its sites are those of attention under the names of cross-attention.
};

/// Copies of the stream, one for each head of q, k or v. They have no data if no tap wants them.
struct HeadCopies {
  Tensor rows;                     ///< `[T, n, d]`, before the norm.
  std::shared_ptr<bool> replaced;  ///< Whether a tap has replaced them, so that q, k or v is computed from them.
};

/// The heads of a sublayer, if its output is a sum of what each of them writes: its elements of z, times those of the
/// gate if there is one, times its columns of wo.
struct HeadOutputs {
  const LinearParams& wo;
  std::int64_t n_heads;
  Site z, proj_out;  ///< `[T, n_heads · n]`, and the output of wo with its bias.
  std::optional<Site> gate{};
};
template <class Kind>
std::optional<HeadOutputs> head_outputs(const Kind&, const typename Kind::Params&) {
  return {};
}

/// The heads of a recurrence, of which all channels of Mamba are one.
struct RecurrentHeads {
  StateShape shape;
  Site effective_attention, carry;
  Site decays;                   ///< The logarithms `[T, H]` or `[T, H, K]`; with `rates`, what these are times of.
  std::optional<Rates> rates{};  ///< `[H]`, or `[P, K]` for decays `[T, P]`.
};
template <class Kind>
std::optional<RecurrentHeads> recurrent_heads(const Kind&, const typename Kind::Params&) {
  return {};
}

/// Parameters without values, for list_params to visit.
template <class Kind>
typename Kind::Params unset_params(const Kind&) {
  return {};
}

/// Keys and values `[T, n_kv_heads, head_dim]` of the rows of a pass, as attention reads them.
struct KeyValueRows {
  Tensor k, v;
};

/// What a sublayer reads.
struct SublayerInput {
  Tensor stream;   ///< `[T, d]`: before the norm.
  Tensor normed;   ///< `[T, d]`: after it.
  Tensor encoded;  ///< `[S, d_encoder]`: the encoder's output; no data without one, or if caches hold K and V.
  Tensor bias{};   ///< The relative bias of the stack; no data without one.
  PositionRows positions{};                                ///< Of the stack's table of relative positions.
  const RopeTables* rope = nullptr;                        ///< The rotations of the stack.
  const std::optional<NormConfig>* norm_config = nullptr;  ///< The norm that made `normed`.
  const NormParams* norm_params = nullptr;
  float scale = 1.0f;  ///< Of `normed`, after the norm.
  HeadCopies q{}, k{}, v{};
  /// By layer: memory for the keys and values that later layers read, too; no data for other layers. Empty if no layer
  /// reads those of another.
  std::span<const KeyValueRows> shared{};
  Tensor per_layer{};  ///< `[T, n_layers · p]`: the inputs of per-layer embeddings; no data without them.
};

/// Taps the stream as the input of a sublayer, and continues with what the tap returns.
void tap_stream(Pass& p, const SiteId& at, SublayerInput& in);

/// Rows of a weight, or columns of a value: [first, end).
struct RowRange {
  std::int64_t first = 0, end = 0;
  std::int64_t size() const { return end - first; }
};

/// Keeps a rank's part of the weights of a model that several ranks run by heads (tensor parallelism).
class WeightDivider {
 public:
  virtual ~WeightDivider() = default;
  virtual int n_ranks() const = 0;
  virtual int rank() const = 0;
  virtual RowRange columns_of_rank(std::int64_t width) const = 0;  ///< Of a value that is divided evenly.
  virtual void keep_rows(LinearParams& w, RowRange rows) = 0;      ///< Only these rows, and these elements of the bias.
  virtual void keep_part(LinearParams& w) = 0;                     ///< The rows of columns_of_rank().
  virtual Param part_of(const Param& param, RowRange range) = 0;   ///< A view of rows, or of elements of a vector.
};

}  // namespace vitrine
