#include "train/dictionary/learned_dictionary.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/widen_row.h"

namespace vitrine {
namespace {

constexpr std::uint64_t kDrawDecoder = 1, kDrawEncoder = 2;  // sequences of random numbers

/// Rows of U(−√(6 / fan_in), √(6 / fan_in)), scaled to a norm if it is not 0.
void draw_rows(float* to, std::int64_t rows, std::int64_t n, std::int64_t fan_in, double norm, std::uint64_t seed,
               std::uint64_t sequence) {
  const double bound = std::sqrt(6.0 / static_cast<double>(fan_in));
  for (std::int64_t r = 0; r < rows; ++r) {
    float* const row = to + r * n;
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      row[i] = static_cast<float>((2 * uniform(seed, sequence, static_cast<std::uint64_t>(r * n + i)) - 1) * bound);
      squares += static_cast<double>(row[i]) * row[i];
    }
    if (norm == 0 || squares == 0) continue;
    const double factor = norm / std::sqrt(squares);
    for (std::int64_t i = 0; i < n; ++i) row[i] = static_cast<float>(row[i] * factor);
  }
}

FeatureSelection::Kind selection_kind_of(LearnedArchitecture architecture) {
  switch (architecture) {
    case LearnedArchitecture::standard:
      return FeatureSelection::Kind::relu;
    case LearnedArchitecture::jumprelu:
      return FeatureSelection::Kind::jump;
    default:
      return FeatureSelection::Kind::topk;
  }
}

}  // namespace

LearnedDictionary::LearnedDictionary(const LearnedOptions& options, std::int64_t d_in, std::int64_t d_out,
                                     std::int64_t d_sae)
    : options_(options) {
  const DictionaryShape& shape = options.shape;
  if (shape.architecture == LearnedArchitecture::topk && shape.k > static_cast<double>(d_sae)) {
    throw BadInput("sae.k", "expected at most d_sae = {}, got {}", d_sae, shape.k);
  }
  if (options.l0.mode == L0Options::Mode::quadratic && options.l0.target > static_cast<double>(d_sae)) {
    throw BadInput("sae.target_l0", "expected at most d_sae = {}, got {}", d_sae, options.l0.target);
  }
  if (has_top(shape.architecture) && options.aux_loss_coefficient > 0 && d_in < 2) {
    throw BadInput("sae.aux_loss_coefficient", "expected 0 for activations of one element");
  }
  const auto aligned = [](std::int64_t n) { return (n + kParamAlignment - 1) / kParamAlignment * kParamAlignment; };
  memory_.resize((aligned(d_sae * d_in) + aligned(d_sae * d_out) + 2 * aligned(d_sae) + aligned(d_out)) *
                     static_cast<std::int64_t>(sizeof(float)),
                 "the parameters of a dictionary");
  std::int64_t at = 0;
  Dictionary& d = dictionary_;
  d.architecture = name_of(shape.architecture);
  add(d.encoder, "W_enc", {d_sae, d_in}, at);
  add(d.encoder_bias, "b_enc", {d_sae}, at);
  add(d.decoder, "W_dec", {d_sae, d_out}, at);
  add(d.decoder_bias, "b_dec", {d_out}, at);
  if (has_thresholds()) add(thresholds_, "threshold", {d_sae}, at);
  if (shape.subtracts_bias) {
    d.subtracted = d.decoder_bias;
    d.subtracted.name = "b_dec as subtracted";
  }
  if (shape.normalization != InputScaling::Kind::factor) d.scaling.kind = shape.normalization;
  d.scaling.is_undone = options.site_out.empty();
  d.selection.kind = selection_kind_of(shape.architecture);
  d.selection.k = static_cast<std::int64_t>(shape.k);
  norms_.resize(static_cast<std::size_t>(d_sae));
}

void LearnedDictionary::add(Param& param, const char* name, const Shape& shape, std::int64_t& at) {
  const std::int64_t cols = shape.rank() > 1 ? shape[1] : shape[0], rows = shape.rank() > 1 ? shape[0] : 1;
  float* const value = memory_.floats() + at;
  at += (shape.count() + kParamAlignment - 1) / kParamAlignment * kParamAlignment;
  param = {name, name, shape, view_of(value, rows, cols, cols)};
  params_.push_back({name, shape, value, nullptr, &param});
}

void LearnedDictionary::draw(std::uint64_t seed) {
  const DictionaryShape& shape = options_.shape;
  const std::int64_t d_sae = dictionary_.d_sae(), d_in = dictionary_.d_in(), d_out = dictionary_.d_out();
  float *const encoder = params_[0].value, *const decoder = params_[2].value;
  draw_rows(decoder, d_sae, d_out, d_out, shape.decoder_init_norm, seed, kDrawDecoder);
  if (options_.site_out.empty()) {
    std::copy_n(decoder, d_sae * d_out, encoder);
  } else {
    draw_rows(encoder, d_sae, d_in, d_in, shape.decoder_init_norm, seed, kDrawEncoder);
  }
  if (has_thresholds()) std::fill_n(params_[4].value, d_sae, static_cast<float>(options_.l0.init_threshold));
}

void LearnedDictionary::copy(const Dictionary& from, const std::string& where, ThreadPool& pool,
                             const Kernels& kernels) {
  const auto check = [&](const char* what, std::int64_t is, std::int64_t own) {
    if (is != own) throw BadInput(where, "{}: expected {}, got {}", what, own, is);
  };
  check("d_in", from.d_in(), dictionary_.d_in());
  check("d_sae", from.d_sae(), dictionary_.d_sae());
  check("d_out", from.d_out(), dictionary_.d_out());
  if (from.selection.kind == FeatureSelection::Kind::gated || from.skip.present() ||
      from.scaling.kind == InputScaling::Kind::factor || from.scaling.is_centered) {
    throw Unsupported(where,
                      "no dictionary of [sae] has its gate, skip connection, centering or factor of activations");
  }
  const Param* const params[] = {&from.encoder, &from.encoder_bias, &from.decoder, &from.decoder_bias};
  for (std::size_t i = 0; i < std::size(params); ++i) {
    if (!params[i]->present()) continue;  // zeros
    const MatrixView& view = params[i]->view;
    float* const to = params_[i].value;
    pool.parallel_for(view.rows, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r) {
        if (view.col_stride == 1) {
          kernels.widen(view.at(r, 0), view.dtype, view.cols, to + r * view.cols);
          continue;
        }
        for (std::int64_t c = 0; c < view.cols; ++c)
          kernels.widen(view.at(r, c), view.dtype, 1, to + r * view.cols + c);
      }
    });
  }
  const std::vector<float>& thresholds = from.selection.thresholds;
  if (has_thresholds()) {
    if (thresholds.empty()) throw BadInput(where, "expected thresholds, since sae.architecture is jumprelu");
    for (std::int64_t i = 0; i < dictionary_.d_sae(); ++i) {
      params_[4].value[i] = thresholds[thresholds.size() > 1 ? static_cast<std::size_t>(i) : 0];
    }
  }
  if (options_.shape.architecture == LearnedArchitecture::batchtopk && !thresholds.empty()) {
    topk_threshold = static_cast<double>(thresholds.front());
  }
}

void LearnedDictionary::refresh(ThreadPool& pool, const Kernels& kernels) {
  Dictionary& d = dictionary_;
  const std::int64_t d_sae = d.d_sae(), n = d.d_out();
  const float* const decoder = params_[2].value;
  pool.parallel_for(d_sae, 64, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      norms_[static_cast<std::size_t>(i)] = std::sqrt(kernels.sum_squares(decoder + i * n, n, 0));
    }
  });
  if (options_.shape.rescales) {
    d.selection.norms = norms_;
    d.decoder_factors.resize(norms_.size());
    std::ranges::transform(norms_, d.decoder_factors.begin(), [](float norm) { return 1 / norm; });
  }
  if (!has_thresholds()) return;
  for (float& threshold : std::span(params_[4].value, static_cast<std::size_t>(d_sae))) {
    threshold = std::max(threshold, 0.0f);
  }
  d.selection.thresholds.assign(params_[4].value, params_[4].value + d_sae);
}

void LearnedDictionary::write(const DictionaryOrigin& origin, const ActivationFactors& factors,
                              const std::string& folder, ThreadPool& pool, const Kernels& kernels) {
  refresh(pool, kernels);
  LearnedDictionary folded(options_, dictionary_.d_in(), dictionary_.d_out(), dictionary_.d_sae());
  const bool rescales = options_.shape.rescales;
  for (std::size_t i = 0; i < params_.size(); ++i)
    std::copy_n(params_[i].value, params_[i].count(), folded.params_[i].value);
  const auto scale = [&](std::size_t param, std::int64_t row, std::int64_t n, double factor) {
    float* const values = folded.params_[param].value + row * n;
    if (factor != 1)
      std::transform(values, values + n, values, [&](float v) { return static_cast<float>(v * factor); });
  };
  for (std::int64_t i = 0; i < dictionary_.d_sae(); ++i) {
    const double norm = rescales ? norms_[static_cast<std::size_t>(i)] / factors.output : 1;  // of the row written
    scale(0, i, dictionary_.d_in(), factors.input * norm);
    scale(1, i, 1, norm);
    scale(2, i, dictionary_.d_out(), 1 / (factors.output * norm));
  }
  scale(3, 0, dictionary_.d_out(), 1 / factors.output);
  Dictionary& d = folded.dictionary_;
  d.selection = dictionary_.selection;
  if (options_.shape.architecture == LearnedArchitecture::batchtopk) {
    d.selection.kind = FeatureSelection::Kind::jump;
    d.selection.thresholds = {static_cast<float>(topk_threshold / (rescales ? factors.output : 1))};
  }
  write_saelens(d, origin, folder);
}

}  // namespace vitrine
