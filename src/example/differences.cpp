#include "example/differences.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/math.h"
#include "model/mixers/experts/sites.h"
#include "model/mixers/ffn/sites.h"
#include "ops/attention_sites.h"

namespace vitrine {
namespace {

constexpr double kWidest = 0.5, kNarrowest = 1.0 / 1024;
constexpr double kInside = 0.8;    // of the widest h that fits: the error of the slope falls with h¹⁰
constexpr double kResidual = 1.7;  // times the rounding: larger residuals are a misfit
constexpr int kFewPairs = 16, kPairs = 64, kMaxRounds = 8;
constexpr double kGood = 3e-7;  // an error that needs no more pairs
constexpr double kMaxRounding = 4e-7;

constexpr std::size_t kTerms = 5;
using Row = std::array<double, kTerms>;
using Square = std::array<Row, kTerms>;

/// Solves m · x = y for a symmetric positive definite m (Cholesky).
Row solve(Square m, Row y) {
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = m[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= m[i][k] * m[j][k];
      m[i][j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / m[j][j];
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t k = 0; k < i; ++k) y[i] -= m[i][k] * y[k];
    y[i] /= m[i][i];
  }
  for (std::size_t i = kTerms; i-- > 0;) {
    for (std::size_t k = i + 1; k < kTerms; ++k) y[i] -= m[k][i] * y[k];
    y[i] /= m[i][i];
  }
  return y;
}

/// Records what changes across a kink: which ReLUs are active, which experts are chosen, and which q, k, v are clipped.
class Choices : public Taps {
 public:
  explicit Choices(const ModelConfig& config) : config_(config) {}

  bool wants(const SiteId& id) const override {
    if (id.layer < 0) return false;
    if (id.site == ExpertSite::expert_indices) return true;
    if (!config_.layers.empty()) return false;
    if (clip(id)) return true;
    const BlockConfig& block = config_.blocks[static_cast<std::size_t>(id.layer)];
    const auto* const moe = find<MoeConfig>(block);
    const auto* const dense = moe != nullptr ? &moe->expert : find<DenseConfig>(block);
    if (dense == nullptr) return false;
    const DenseConfig& ffn = *dense;
    if (ffn.activation != Activation::relu && ffn.activation != Activation::relu_squared) return false;
    return id.site == FfnSite::mlp_pre || id.site == (ffn.gated ? ExpertSite::expert_gate : ExpertSite::expert_pre);
  }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    if (id.site == ExpertSite::expert_indices) {
      for (std::int64_t t = 0; t < value.rows(); ++t) {  // their order is no kink
        const auto first = made.insert(made.end(), value.row(t), value.row(t) + value.row_size());
        std::sort(first, made.end());
      }
      return value;
    }
    const std::optional<float> limit = clip(id);
    for (const float x : value.values()) {
      const bool is_beyond = limit ? std::abs(x) >= *limit : x > 0;
      made.push_back(is_beyond ? 1.0f : 0.0f);
    }
    return value;
  }

  std::vector<float> made;

 private:
  /// The number to which a site's elements are clamped.
  std::optional<float> clip(const SiteId& id) const {
    if (id.site != AttentionSite::q && id.site != AttentionSite::k && id.site != AttentionSite::v) return {};
    const AttentionConfig* const attention = attention_of(config_, static_cast<std::size_t>(id.layer));
    return attention != nullptr ? attention->qkv_clip : std::nullopt;
  }

  const ModelConfig& config_;
};

}  // namespace

/// Differences of the loss over pairs of points, and the odd polynomial fitted to them.
class Differences::Pairs {
 public:
  Pairs(Differences& of, float* p, double h) : of_(of), p_(p), h_(h) {}

  /// Adds `n` pairs between the existing ones.
  void add(int n) {
    constexpr double kGolden = 0.6180339887498949;
    const float before = *p_;
    const double offset = std::fmod(0.5 + kGolden * rounds_++, 1.0);
    for (int i = 0; i < n; ++i) {
      const double step = h_ * (i + offset) / n;
      Row row{};
      double difference = 0;
      for (const double sign : {1.0, -1.0}) {
        *p_ = static_cast<float>(static_cast<double>(before) + sign * step);
        double power =
            sign * (static_cast<double>(*p_) - static_cast<double>(before)) / h_;  // the step after rounding to float
        const double square = power * power;
        for (double& x : row) {
          x += power;
          power *= square;
        }
        difference += sign * of_.loss();
      }
      x_.push_back(row);
      y_.push_back(difference);
    }
    *p_ = before;
  }

  Fit fit() const {
    Square squares{};
    Row products{};
    for (std::size_t i = 0; i < x_.size(); ++i) {
      for (std::size_t a = 0; a < kTerms; ++a) {
        for (std::size_t b = 0; b < kTerms; ++b) squares[a][b] += x_[i][a] * x_[i][b];
        products[a] += x_[i][a] * y_[i];
      }
    }
    const Row coefficients = solve(squares, products);
    const double variance = solve(squares, {1})[0];
    double residual = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      double r = y_[i];
      for (std::size_t a = 0; a < kTerms; ++a) r -= coefficients[a] * x_[i][a];
      residual += r * r;
    }
    residual /= static_cast<double>(x_.size() - kTerms);
    return {coefficients[0] / h_, std::sqrt(residual * variance) / h_, std::sqrt(residual)};
  }

 private:
  Differences& of_;
  float* p_;
  double h_;
  int rounds_ = 0;
  std::vector<Row> x_;
  std::vector<double> y_;
};

Differences::Differences(const Model& model, std::span<const std::int32_t> ids, std::int32_t target, float* some)
    : model_(model), ids_(ids), target_(target), pool_(1), h_(1.0 / 16) {
  choices_ = choices();
  Pairs pairs(*this, some, kNarrowest);
  pairs.add(2 * kPairs);
  const double most = kMaxRounding * (1 + loss());  // near a kink the residuals are larger than rounding
  rounding_ = std::clamp(pairs.fit().residual, 1e-9, most);
}

/// The loss, computed in double from the logits of the model's forward.
double Differences::loss(Taps* taps) {
  const auto n = static_cast<std::int64_t>(ids_.size());
  double result = 0;
  Pass pass{{.pool = pool_, .kernels = default_kernels(), .arena = arena_, .compute = Compute::f32},
            {{0, n, 0, nullptr}},
            {},
            taps};
  pass.logits = {LogitRequest::Rows::last_of_segments, 0, 0, [&](std::int64_t, const Tensor& logits) {
                   const float* const x = logits.data;
                   const auto largest = static_cast<double>(*std::max_element(x, x + logits.count()));
                   double sum = 0;
                   for (const float v : logits.values()) sum += math::exp(static_cast<double>(v) - largest);
                   result = math::log(sum) + largest - static_cast<double>(x[target_]);
                 }};
  model_.forward(pass, ids_);
  return result;
}

std::vector<float> Differences::choices() {
  Choices seen(model_.config());
  loss(&seen);
  return std::move(seen.made);
}

/// Whether the same ReLUs are active and the same experts are chosen at six points of [p − h, p + h].
bool Differences::has_no_kink(float* p, double h) {
  if (choices_.empty()) return true;
  const float before = *p;
  bool same = true;
  for (const double part : {1.0, -1.0, 0.7, -0.7, 0.3, -0.3}) {
    *p = static_cast<float>(static_cast<double>(before) + part * h);
    same = same && choices() == choices_;
  }
  *p = before;
  return same;
}

/// Whether there is no kink and the residuals of a fit to few pairs are as small as rounding.
bool Differences::holds(float* p, double h) {
  if (!has_no_kink(p, h)) return false;
  Pairs pairs(*this, p, h);
  pairs.add(kFewPairs);
  return pairs.fit().residual <= kResidual * rounding_;
}

Difference Differences::by(float* p) {
  double h = h_;
  if (holds(p, h)) {
    while (h < kWidest && holds(p, 2 * h)) h *= 2;
  } else {
    do {
      h /= 2;
    } while (h > kNarrowest && !holds(p, h));
  }
  h_ = h;
  Pairs pairs(*this, p, kInside * h);
  Fit fit;
  for (int round = 0; round < kMaxRounds; ++round) {
    pairs.add(kPairs);
    fit = pairs.fit();
    if (fit.error <= kGood) break;
  }
  return {fit.slope, fit.error, true, has_no_kink(p, kInside * h) && fit.residual <= 1.5 * kResidual * rounding_};
}

}  // namespace vitrine
