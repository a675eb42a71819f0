// The parts of the residual stream at one position: what the embedding, each sublayer or head, and each bias writes,
// through every norm, whose divisors are those of the run. Their sum is the normed stream.
//
// The values are those of one forward, read by taps; the parts are computed in double precision.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inspect/edited_runs.h"
#include "pass/modifiers.h"

namespace vitrine {

/// A part, and the changes that zero it at every position.
struct StreamPart {
  std::string name;
  std::vector<double> vector;
  Edits ablation{};
};

/// The values of one position of a run, by site.
class PositionValues {
 public:
  void add(const SiteId& id, const Tensor& row) {
    values_.emplace_back(id, std::vector<double>(row.data, row.data + row.count()));
  }
  /// Throws InternalError if there is none.
  const std::vector<double>& operator[](const SiteId& id) const;

 private:
  std::vector<std::pair<SiteId, std::vector<double>>> values_;
};

/// A row of a stored matrix.
std::vector<double> doubles_of(const MatrixView& view, std::int64_t row);

/// (x − mean x) / scale · (weight_offset + w) of every part; without w if the norm has no weight.
void apply_norm(const NormConfig& c, const NormParams& w, double scale, std::span<StreamPart> parts);

/// W x of every part; the bias, if there is one, is a part of its own.
void apply_linear(const LinearParams& w, const std::string& bias_name, std::vector<StreamPart>& parts);

/// The change that takes a bias away again where it has been added.
SiteEdit without_bias(const SiteId& site, const Param& bias);

/// Throws Unsupported for a stream that is not a sum of parts.
void check_stream_parts(const ModelConfig& config);

/// The sites whose values make up the parts; `by_head`: the heads and the bias of a sublayer that has heads instead of
/// its output.
std::vector<SiteId> sites_of_parts(const Model& model, bool by_head);

/// Adds the row of the value at a site to `values`; of z, or of the gate that follows it, what each head writes.
void add_value(const Model& model, Pass& pass, std::int64_t position, const SiteId& id, const Tensor& row,
               PositionValues& values);

/// All parts of the normed stream at the position.
std::vector<StreamPart> stream_parts(const Model& model, AppliedControls controls, const PositionValues& values,
                                     bool by_head);

}  // namespace vitrine
