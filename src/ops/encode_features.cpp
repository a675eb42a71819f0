#include "ops/encode_features.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/exchanged.h"
#include "ops/elementwise.h"
#include "ops/feature_selector.h"
#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr std::int64_t kPanelOfFeatures = std::int64_t{1} << 20;  // floats of p at a time: 4 MiB
constexpr std::int64_t kPanelRows = 512;                          // at most, so that a product has enough features
constexpr std::int64_t kGrowingFeatures = std::int64_t{1} << 24;  // of rows whose lists of active features grow

void require_finite_features(const Pass& p, const Dictionary& dictionary, const float* values, std::int64_t n,
                             std::int64_t t) {
  if (p.kernels.all_finite(values, n)) return;
  throw NotFinite(name_of(dictionary.at(DictionarySite::acts_pre)),
                  "a value is infinite or NaN (row {}): check the weights of the dictionary", t);
}

/// p = q · gain + bias, in place or into another row.
void scale_and_add_bias(const float* q, const float* gain, const float* bias, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float scaled = gain != nullptr ? q[i] * gain[i] : q[i];
    to[i] = bias != nullptr ? scaled + bias[i] : scaled;
  }
}

const float* gate_bias_of(Pass& p, const Dictionary& dictionary) {
  return dictionary.selection.kind == FeatureSelection::Kind::gated ? p.vector(dictionary.selection.gate_bias)
                                                                    : nullptr;
}

/// Calls take(row, first feature, p, q, n) for each row and panel of features, in parallel over the rows of a panel,
/// and end(is last) after each panel. Without memory for all p.
template <class Take, class End>
void for_panels(Pass& p, const Dictionary& dictionary, const Tensor& x, Take&& take, End&& end) {
  const Exchanged exact(p.compute, Compute::f32);
  const ArenaScope scope(p.arena);
  const std::int64_t n = dictionary.d_sae(), rows = std::min(x.rows(), kPanelRows);
  const std::int64_t panel = std::min(n, std::max<std::int64_t>(kPanelOfFeatures / rows / 64 * 64, 256));
  const Tensor q = p.tensor({rows, panel});
  const float* const bias = dictionary.encoder_bias.present() ? p.vector(dictionary.encoder_bias) : nullptr;
  const bool is_gated = dictionary.selection.kind == FeatureSelection::Kind::gated;
  const Tensor gated = is_gated ? p.tensor(q.shape) : Tensor{};
  for (std::int64_t begin = 0; begin < x.rows(); begin += rows) {
    const std::int64_t n_rows = std::min(rows, x.rows() - begin);
    for (std::int64_t first = 0; first < n && !p.shapes_only; first += panel) {
      const std::int64_t count = std::min(panel, n - first);
      multiply(p, view_of(x.row(begin), n_rows, x.row_size(), x.row_size()),
               dictionary.encoder.view.row_range(first, count), q.data, panel);
      p.for_rows(n_rows, 4 * count, [&](std::int64_t t) {
        float* const to = is_gated ? gated.row(t) : q.row(t);
        const float* const gain = is_gated ? dictionary.selection.gains.data() + first : nullptr;
        scale_and_add_bias(q.row(t), gain, bias != nullptr ? bias + first : nullptr, count, to);
        take(begin + t, first, to, is_gated ? q.row(t) : nullptr, count);
      });
      end(begin + n_rows == x.rows() && first + count == n);
    }
  }
}

/// The rows with their values as a value of the tape.
Features with_values(Pass& p, const Dictionary& dictionary, std::shared_ptr<const SparseRows> rows) {
  const auto columns = std::make_shared<const FeatureColumns>(columns_of(*rows, dictionary.d_sae()));
  Features features{std::move(rows), {}, p.tensor({std::max<std::int64_t>(columns->count(), 1)}), columns};
  features.values.data[0] = 0;  // if there are none
  for_elements(features,
               [&](std::int64_t at, std::size_t, const SparseValue& value) { features.values.data[at] = value.value; });
  return features;
}

/// How d a / d threshold is estimated: by a rectangle of the bandwidth around it (Rajamanoharan et al. 2024).
struct Estimator {
  const EncoderTraining& training;
  const float* thresholds;

  /// An element with value 0 is chosen because it is near.
  bool is_near(const SparseValue& at) const {
    return at.value == 0 || (at.value - thresholds[at.index]) / training.bandwidth < 0.5f;
  }
};

/// Adds −d[at] to the gradient of each element's threshold, and d to the pre-activations if the estimator reaches them.
void add_estimates(Pass& p, const Dictionary& dictionary, const Tensor& x, const EncoderTraining& training,
                   const FeatureColumns& columns, const Tensor& d) {
  const Tensor dthreshold = p.grad(*training.thresholds);
  p.parallel_for(dictionary.d_sae(), 256, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end && dthreshold.data != nullptr; ++i) {
      float sum = 0;
      for (auto j = columns.first[static_cast<std::size_t>(i)]; j < columns.first[static_cast<std::size_t>(i) + 1];
           ++j) {
        sum += d.data[columns.elements[static_cast<std::size_t>(j)].at];
      }
      dthreshold.data[i] -= sum;
    }
  });
  if (training.reaches_input) add_encoder_gradients(p, dictionary, x, columns, d);
}

/// How many features of each row are active, as a value whose gradient is the estimator's.
Tensor record_counts(Pass& p, const Dictionary& dictionary, const Tensor& x, const EncoderTraining& training,
                     const Features& features) {
  const Tensor counts = p.filled({x.rows()}, 0.0f);
  for_elements(features, [&](std::int64_t, std::size_t t, const SparseValue& at) {
    counts.data[t] += at.value != 0 ? 1.0f : 0.0f;
  });
  if (training.thresholds == nullptr) return counts;
  p.record(OpKind::select_features, {}, counts, [&p, &dictionary, x, training, features, counts] {
    const ArenaScope scope(p.arena);
    const Tensor dcounts = p.grad(counts), d = p.filled(features.values.shape, 0.0f);
    const Estimator estimator{training, p.vector(*training.thresholds)};
    for_elements(features, [&](std::int64_t at, std::size_t t, const SparseValue& value) {
      if (estimator.is_near(value)) d.data[at] = dcounts.data[t] / training.bandwidth;
    });
    add_estimates(p, dictionary, x, training, *features.columns, d);
  });
  return counts;
}

void record_activations(Pass& p, const Dictionary& dictionary, const Tensor& x, const EncoderTraining& training,
                        const Features& features) {
  p.record(OpKind::select_features, {}, features.values, [&p, &dictionary, x, training, features] {
    const ArenaScope scope(p.arena);
    const Tensor da = p.grad(features.values), dp = p.filled(da.shape, 0.0f);
    const std::vector<float>& norms = dictionary.selection.norms;
    for_elements(features, [&](std::int64_t at, std::size_t, const SparseValue& value) {
      if (value.value == 0) return;
      dp.data[at] = norms.empty() ? da.data[at] : da.data[at] * norms[static_cast<std::size_t>(value.index)];
    });
    add_encoder_gradients(p, dictionary, x, *features.columns, dp);
    if (training.thresholds == nullptr) return;
    const Estimator estimator{training, p.vector(*training.thresholds)};
    for_elements(features, [&](std::int64_t at, std::size_t, const SparseValue& value) {
      const float slope = estimator.thresholds[value.index] / training.bandwidth;
      dp.data[at] = estimator.is_near(value) ? slope * da.data[at] : 0;
    });
    add_estimates(p, dictionary, x, training, *features.columns, dp);
  });
}

/// The keys of dead features: they are linear in the pre-activations.
void record_keys(Pass& p, const Dictionary& dictionary, const Tensor& x, const Features& features) {
  p.record(OpKind::select_features, {}, features.values, [&p, &dictionary, x, features] {
    const ArenaScope scope(p.arena);
    const Tensor da = p.grad(features.values), dp = p.filled(da.shape, 0.0f);
    const std::vector<float>& norms = dictionary.selection.norms;
    for_elements(features, [&](std::int64_t at, std::size_t, const SparseValue& value) {
      dp.data[at] = norms.empty() ? da.data[at] : da.data[at] * norms[static_cast<std::size_t>(value.index)];
    });
    add_encoder_gradients(p, dictionary, x, *features.columns, dp);
  });
}

}  // namespace

PreActivations pre_activations(Pass& p, const Dictionary& dictionary, const Tensor& x) {
  const Exchanged exact(p.compute, Compute::f32);
  const Tensor q = product(p, dictionary.encoder, x);
  if (dictionary.selection.kind != FeatureSelection::Kind::gated) {
    add_bias(p, dictionary.encoder_bias, q);
    return {q, {}};
  }
  const Tensor y = p.tensor(q.shape);
  const float* const gain = dictionary.selection.gains.data();
  const float* const bias = p.vector(dictionary.encoder_bias);
  p.for_rows(q.rows(), q.row_size(),
             [&](std::int64_t t) { scale_and_add_bias(q.row(t), gain, bias, q.row_size(), y.row(t)); });
  p.record(OpKind::gate_features, {q}, y, [&p, q, y, gain] {
    const Tensor dq = p.grad(q), dy = p.grad(y);
    p.for_rows(q.rows(), q.row_size(),
               [&](std::int64_t t) { p.kernels.multiply_add(gain, dy.row(t), q.row_size(), dq.row(t)); });
  });
  return {y, q};
}

Features select_features(Pass& p, const Dictionary& dictionary, const PreActivations& pre, const ActiveRows& active) {
  const std::int64_t n = pre.p.row_size();
  const Tensor a = p.tensor(pre.p.shape);
  FeatureSelector selector(dictionary.selection, n, pre.p.rows(), p.kernels, gate_bias_of(p, dictionary));
  p.for_rows(pre.p.rows(), 4 * n, [&](std::int64_t t) {
    if (!active[static_cast<std::size_t>(t)]) return;
    require_finite_features(p, dictionary, pre.p.row(t), n, t);
    selector.take(t, 0, pre.p.row(t), pre.q.data != nullptr ? pre.q.row(t) : nullptr, n);
    selector.finish(t);
  });
  const auto rows = selector.rows();
  p.for_rows(a.rows(), n, [&](std::int64_t t) {
    std::fill_n(a.row(t), n, 0.0f);
    for (const auto& [i, value] : rows->row(t)) a.row(t)[i] = value;
  });
  const std::vector<float>& norms = dictionary.selection.norms;
  p.record(OpKind::select_features, {pre.p}, a, [&p, x = pre.p, a, rows, &norms] {
    const Tensor dx = p.grad(x), da = p.grad(a);
    p.for_rows(x.rows(), 64, [&](std::int64_t t) {
      for (const auto& [i, value] : rows->row(t)) {
        const float slope = norms.empty() ? 1.0f : norms[static_cast<std::size_t>(i)];
        dx.row(t)[i] += slope * da.row(t)[i];
      }
    });
  });
  return {rows, a};
}

Features encode_features(Pass& p, const Dictionary& dictionary, const Tensor& x, const ActiveRows& active) {
  p.refuse_tape("encode_features");
  const std::int64_t n = dictionary.d_sae();
  const float* const gate_bias = gate_bias_of(p, dictionary);
  auto all = std::make_shared<SparseRows>();
  // A top-k keeps few features of a row; where any number may be active, few rows at a time have growing lists.
  const std::int64_t few = std::max<std::int64_t>(kGrowingFeatures / n, 1);
  const std::int64_t at_once = dictionary.selection.k > 0 ? x.rows() : std::min(few, x.rows());
  for (std::int64_t begin = 0; begin < x.rows(); begin += at_once) {
    const Tensor rows = x.row_range(begin, std::min(at_once, x.rows() - begin));
    FeatureSelector selector(dictionary.selection, n, rows.rows(), p.kernels, gate_bias);
    const auto take = [&](std::int64_t t, std::int64_t first, const float* pre, const float* q, std::int64_t count) {
      if (!active[static_cast<std::size_t>(begin + t)]) return;
      require_finite_features(p, dictionary, pre, count, begin + t);
      selector.take(t, first, pre, q, count);
      if (first + count == n) selector.finish(t);
    };
    for_panels(p, dictionary, rows, take, [](bool) {});
    selector.append_to(*all);
  }
  return {all, {}};
}

LearnedFeatures encode_learned(Pass& p, const Dictionary& dictionary, const Tensor& x,
                               const EncoderTraining& training) {
  const FeatureSelection& selection = dictionary.selection;
  FeatureSelector selector(selection, dictionary.d_sae(), x.rows(), p.kernels, nullptr,
                           {training.n_of_batch, training.bandwidth});
  DeadSelector dead(selection, training.dead, training.n_dead, x.rows());
  for_panels(
      p, dictionary, x,
      [&](std::int64_t t, std::int64_t first, const float* pre, const float*, std::int64_t n) {
        require_finite_features(p, dictionary, pre, n, t);
        selector.take(t, first, pre, nullptr, n);
        if (!training.dead.empty()) dead.take(t, first, pre, n);
        if (first + n < dictionary.d_sae()) return;
        selector.finish(t);
        dead.finish(t);
      },
      [&](bool is_last) { selector.cut_batch(is_last); });
  LearnedFeatures learned;
  learned.active = with_values(p, dictionary, selector.rows());
  learned.counts = record_counts(p, dictionary, x, training, learned.active);
  record_activations(p, dictionary, x, training, learned.active);
  if (training.dead.empty()) return learned;
  learned.dead = with_values(p, dictionary, dead.rows());
  record_keys(p, dictionary, x, learned.dead);
  return learned;
}

}  // namespace vitrine
