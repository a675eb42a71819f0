#include "ops/encode_features.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/exchanged.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr std::int64_t kPanelOfFeatures = std::int64_t{1} << 20;  // floats of p at a time: 4 MiB
constexpr std::int64_t kGrowingFeatures = std::int64_t{1} << 24;  // of rows whose lists of active features grow

struct FeatureCandidate {
  float key;
  SparseValue at;
};
bool is_stronger(const FeatureCandidate& a, const FeatureCandidate& b) {
  return a.key != b.key ? a.key > b.key : a.at.index < b.at.index;
}

/// Chooses the activations of rows from panels of p, whose features ascend.
class FeatureSelector {
 public:
  FeatureSelector(Pass& p, const Dictionary& dictionary, std::int64_t n_rows)
      : selection_(dictionary.selection),
        d_sae_(dictionary.d_sae()),
        rows_(static_cast<std::size_t>(n_rows)),
        chosen_(is_top() ? static_cast<std::size_t>(n_rows) : 0) {
    if (selection_.kind == FeatureSelection::Kind::gated) gate_bias_ = p.vector(selection_.gate_bias);
  }

  /// The features from `first` on of a row; q is that of gated ones.
  void take(std::int64_t t, std::int64_t first, const float* p, const float* q, std::int64_t n) {
    const auto row = static_cast<std::size_t>(t);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t feature = first + i;
      if (is_top()) {
        take_candidate(chosen_[row], feature, p[i]);
      } else if (selection_.kind == FeatureSelection::Kind::group_max) {
        take_of_group(rows_[row], feature, p[i]);
      } else if (const float value = key_of(feature, p[i]);
                 value > 0 && is_open(feature, value, q != nullptr ? q[i] : 0)) {
        rows_[row].push_back({static_cast<std::int32_t>(feature), value});
      }
    }
  }

  /// Called once for each row, after its last panel.
  void finish(std::int64_t t) {
    if (!is_top()) return;
    const auto row = static_cast<std::size_t>(t);
    cut(chosen_[row]);
    for (const FeatureCandidate& c : chosen_[row]) rows_[row].push_back(c.at);
    std::ranges::sort(rows_[row], {}, &SparseValue::index);
    chosen_[row] = {};
  }

  std::shared_ptr<const SparseRows> rows() { return std::make_shared<SparseRows>(SparseRows{std::move(rows_)}); }

  /// Appends the first n rows without what a growing vector reserves, and begins anew.
  void append_to(SparseRows& all, std::int64_t n) {
    for (std::int64_t t = 0; t < n; ++t) {
      std::vector<SparseValue>& row = rows_[static_cast<std::size_t>(t)];
      all.rows.emplace_back(row.begin(), row.end());
      row.clear();
    }
  }

 private:
  bool is_top() const {
    return selection_.kind == FeatureSelection::Kind::topk || selection_.kind == FeatureSelection::Kind::abstopk;
  }

  float key_of(std::int64_t feature, float p) const {
    return selection_.norms.empty() ? p : p * selection_.norms[static_cast<std::size_t>(feature)];
  }
  bool is_open(std::int64_t feature, float p, float q) const {
    const auto i = static_cast<std::size_t>(feature);
    if (selection_.kind == FeatureSelection::Kind::gated) return q + gate_bias_[i] > 0;
    if (selection_.kind == FeatureSelection::Kind::jump)
      return p > selection_.thresholds[selection_.thresholds.size() > 1 ? i : 0];
    return true;
  }

  void take_candidate(std::vector<FeatureCandidate>& chosen, std::int64_t feature, float p) {
    const auto k = static_cast<std::size_t>(selection_.k);
    const float value = key_of(feature, p);
    const float key = selection_.kind == FeatureSelection::Kind::abstopk ? std::abs(value) : value;
    if (!(key > 0) || k == 0) return;
    chosen.push_back({key, {static_cast<std::int32_t>(feature), value}});
    if (chosen.size() >= 2 * k + 64) cut(chosen);
  }
  void cut(std::vector<FeatureCandidate>& chosen) const {
    const auto k = static_cast<std::size_t>(selection_.k);
    if (chosen.size() <= k) return;
    std::nth_element(chosen.begin(), chosen.begin() + selection_.k, chosen.end(), is_stronger);
    chosen.resize(k);
  }

  void take_of_group(std::vector<SparseValue>& row, std::int64_t feature, float p) const {
    const std::int64_t size = d_sae_ / selection_.k;
    if (!(p > 0)) return;
    const bool is_first = row.empty() || row.back().index / size != feature / size;
    if (is_first) {
      row.push_back({static_cast<std::int32_t>(feature), p});
    } else if (p > row.back().value) {
      row.back() = {static_cast<std::int32_t>(feature), p};
    }
  }

  const FeatureSelection& selection_;
  std::int64_t d_sae_;
  const float* gate_bias_ = nullptr;
  std::vector<std::vector<SparseValue>> rows_;
  std::vector<std::vector<FeatureCandidate>> chosen_;
};

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

MatrixView matrix_of(const Tensor& x) { return view_of(x.data, x.rows(), x.row_size(), x.row_size()); }

/// Chooses the activations of n rows from `begin` on, panel by panel of features.
void encode_rows(Pass& p, const Dictionary& dictionary, const Tensor& all, const ActiveRows& active, std::int64_t begin,
                 std::int64_t n_rows, FeatureSelector& selector) {
  const ArenaScope scope(p.arena);
  const Tensor x = all.row_range(begin, n_rows);
  const std::int64_t n = dictionary.d_sae();
  const std::int64_t panel = std::min(n, std::max<std::int64_t>(kPanelOfFeatures / x.rows() / 64 * 64, 256));
  const Tensor q = p.tensor({x.rows(), panel});
  const float* const bias = dictionary.encoder_bias.present() ? p.vector(dictionary.encoder_bias) : nullptr;
  const bool is_gated = dictionary.selection.kind == FeatureSelection::Kind::gated;
  const Tensor gated = is_gated ? p.tensor(q.shape) : Tensor{};
  for (std::int64_t first = 0; first < n && !p.shapes_only; first += panel) {
    const std::int64_t count = std::min(panel, n - first);
    multiply(p, matrix_of(x), dictionary.encoder.view.row_range(first, count), q.data, panel);
    p.for_rows(x.rows(), 4 * count, [&](std::int64_t t) {
      if (!active[static_cast<std::size_t>(begin + t)]) return;
      float* const to = is_gated ? gated.row(t) : q.row(t);
      const float* const gain = is_gated ? dictionary.selection.gains.data() + first : nullptr;
      scale_and_add_bias(q.row(t), gain, bias != nullptr ? bias + first : nullptr, count, to);
      require_finite_features(p, dictionary, to, count, begin + t);
      selector.take(t, first, to, is_gated ? q.row(t) : nullptr, count);
      if (first + count == n) selector.finish(t);
    });
  }
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
  FeatureSelector selector(p, dictionary, pre.p.rows());
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
  const Exchanged exact(p.compute, Compute::f32);
  const ArenaScope scope(p.arena);
  auto all = std::make_shared<SparseRows>();
  // A top-k keeps few features of a row; where any number may be active, few rows at a time have growing lists.
  const std::int64_t n = dictionary.d_sae(), n_rows = x.rows();
  const std::int64_t few = std::max<std::int64_t>(kGrowingFeatures / n, 1);
  const std::int64_t at_once = dictionary.selection.k > 0 ? n_rows : std::min(few, n_rows);
  FeatureSelector selector(p, dictionary, at_once);
  for (std::int64_t first = 0; first < n_rows; first += at_once) {
    const std::int64_t count = std::min(at_once, n_rows - first);
    encode_rows(p, dictionary, x, active, first, count, selector);
    selector.append_to(*all, count);
  }
  return {all, {}};
}

}  // namespace vitrine
