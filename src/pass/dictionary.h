// Dictionaries of features: sparse autoencoders (SAEs) and transcoders, attached to sites of a pass. The model is not
// changed.
//
//   z = scaled x                        x [T, d_in] the value of the input site, heads next to each other
//   p = (z − b) W_enc + b_enc           a = selected p [T, d_sae]
//   r = Σ_i a_i f_i W_dec[i] + b_dec    reconstruction = r, the scaling of x undone, + W_skip x
//   y = reconstruction + error          y the value of the output site; of an SAE that is x
//
// The members are views of the dictionary's files, in the stored types and orientations. Sources: Bricken et al. 2023
// (SAE); Rajamanoharan et al. 2024 (gated, JumpReLU); Gao et al. 2024 (TopK); Bussmann et al. 2024 (BatchTopK);
// Dunefsky et al. 2024 (transcoders); Ameisen et al. 2025 (cross-layer); decoderesearch/SAELens, whose names the sites
// have.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pass/adapter.h"
#include "pass/dictionary_use.h"
#include "pass/sites.h"
#include "tensor/param.h"

namespace vitrine {

/// How x becomes z, and how that is undone after the decoder.
struct InputScaling {
  enum class Kind : std::uint8_t {
    none,
    layer_norm,     ///< z = (x − μ) / (s + 1e-5), s the deviation with n − 1; undone: r · s + μ
    constant_norm,  ///< z = c · x, c = √d_in / ‖x‖; undone: r / c
    factor,         ///< z = factor · x; undone: r / factor
  };
  Kind kind = Kind::none;
  float factor = 1;
  bool is_undone = true;  ///< Not by transcoders.
  /// x − μ takes the place of x above, and μ is added in the end: what a stream without its mean would give.
  bool is_centered = false;

  bool is_identity() const { return kind == Kind::none && !is_centered; }
  bool subtracts_mean() const { return is_centered || kind == Kind::layer_norm; }
};

/// Which elements of p become activations, and with which values.
struct FeatureSelection {
  enum class Kind : std::uint8_t {
    relu,       ///< p > 0
    jump,       ///< A key > 0 and > threshold; the key is p · norm, and the value is the key.
    topk,       ///< The k largest keys that are > 0.
    abstopk,    ///< The k keys of the largest magnitude, with their signs.
    group_max,  ///< Of each of k groups of consecutive features the largest p, if it is > 0.
    gated,      ///< p > 0 and q + gate_bias > 0, where q = (z − b) W_enc and p = q · gain + b_enc
  };
  Kind kind = Kind::relu;
  std::int64_t k = 0;
  std::vector<float> thresholds{};  ///< `[d_sae]`, or one for all.
  std::vector<float> norms{};       ///< `[d_sae]`: ‖W_dec[i]‖; empty: all 1.
  std::vector<float> gains{};       ///< `[d_sae]`
  Param gate_bias{};                ///< `[d_sae]`
};

struct Dictionary;

/// What a decoder of a cross-layer transcoder adds from the features of an earlier layer.
struct EarlierDecoder {
  const Dictionary* from = nullptr;  ///< A member of the same set, which owns both.
  Param weight{};                    ///< `[from->d_sae, d_out]`
};

struct Dictionary {
  std::string name;          ///< "": it has none.
  std::string architecture;  ///< `jumprelu`, as in SAELens.
  SiteId input, output;
  std::optional<std::int64_t> head{};  ///< x and y are this head's.
  InputScaling scaling{};
  Param subtracted{};    ///< b `[d_in]`; absent: 0.
  Param encoder{};       ///< `[d_sae, d_in]`: W_enc transposed.
  Param encoder_bias{};  ///< `[d_sae]`; absent: 0.
  FeatureSelection selection{};
  Param decoder{};                       ///< `[d_sae, d_out]`: W_dec.
  Param decoder_bias{};                  ///< `[d_out]`; absent: 0.
  std::vector<float> decoder_factors{};  ///< f `[d_sae]`; empty: all 1.
  std::vector<EarlierDecoder> earlier{};
  Param skip{};                      ///< `[d_out, d_in]`; absent: 0.
  bool skip_reads_centered = false;  ///< W_skip multiplies x − b, not x.
  std::vector<std::shared_ptr<const void>> storage{};
  std::uint64_t identity = new_identity();

  std::int64_t d_in() const { return encoder.shape[1]; }
  std::int64_t d_sae() const { return encoder.shape[0]; }
  std::int64_t d_out() const { return decoder.shape[1]; }
  bool is_transcoder() const { return !(input == output); }
  SiteId at(DictionarySite value) const {
    SiteId id = output;
    id.dictionary = &name;
    id.value = value;
    return id;
  }
};

/// Tokens at which a dictionary does nothing, and its activations are 0.
struct SkippedTokens {
  std::vector<std::int32_t> ids{};  ///< Ascending.
  std::uint64_t identity = new_identity();
};

/// A dictionary in use.
struct AppliedDictionary {
  std::shared_ptr<const Dictionary> dictionary;
  DictionaryUse use = DictionaryUse::automatic;
  std::shared_ptr<const SkippedTokens> skipped{};  ///< Null: none.

  bool operator==(const AppliedDictionary&) const = default;
};

using AppliedDictionaries = std::span<const AppliedDictionary>;

}  // namespace vitrine
