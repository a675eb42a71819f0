#include "circuit/linear_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/tape.h"
#include "base/error.h"
#include "circuit/feature_writers.h"
#include "inspect/text_pass.h"
#include "model/dry_run.h"
#include "ops/feature_scaling.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

using Vector = std::vector<float>;

/// A parameter, or a row of a matrix, as floats.
Vector floats_of(const Pass& p, const Param& param, std::int64_t row = 0) {
  Vector values(static_cast<std::size_t>(param.view.cols));
  p.widen(param.view, row, param.view.cols, values.data());
  return values;
}

double product_of(std::span<const float> a, const float* b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// The parameters that are added in a forward, and the sum of their gradients times themselves.
class BiasEffects {
 public:
  explicit BiasEffects(const Model& model) {
    for_each_param(model.config(), model.params(),
                   [&](const Param& param, const std::string& name, const Shape& shape) {
                     if (!name.ends_with(".bias") || shape.rank() != 1 || !param.present()) return;
                     gradients_.add(param);
                     params_.push_back(&param);
                   });
  }
  Gradients& gradients() { return gradients_; }

  /// Also sets the gradients to zero.
  double take(const Pass& p) {
    if (params_.empty()) return 0;
    if (values_.empty()) {
      for (const Param* param : params_) values_.push_back(floats_of(p, *param));
    }
    double sum = 0;
    for (std::size_t i = 0; i < params_.size(); ++i) sum += product_of(values_[i], gradients_.of(*params_[i]).data);
    std::ranges::fill(gradients_.values(), 0.0f);
    return sum;
  }

 private:
  Gradients gradients_;
  std::vector<const Param*> params_;
  std::vector<Vector> values_;
};

/// Rows of the unembedding minus their mean over the vocabulary, times the head's factor.
struct LogitVectors {
  std::vector<Vector> vectors;
  std::vector<double> biases;

  LogitVectors(const Pass& p, const Model& model, std::span<const LogitNode> logits) {
    const HeadConfig& head = model.config().head;
    const Param& weight = head.tied ? model.params().embed : model.params().unembed.weight;
    const std::int64_t n = model.config().vocab_size;
    std::vector<double> mean(static_cast<std::size_t>(weight.view.cols));
    Vector row(mean.size());
    for (std::int64_t id = 0; id < n; ++id) {
      p.check_interrupt();
      p.widen(weight.view, id, weight.view.cols, row.data());
      for (std::size_t i = 0; i < row.size(); ++i) mean[i] += static_cast<double>(row[i]);
    }
    Vector bias;
    if (const Param& param = model.params().unembed.bias; param.present()) bias = floats_of(p, param);
    const double mean_bias = std::accumulate(bias.begin(), bias.end(), 0.0) / static_cast<double>(n);
    for (const LogitNode& logit : logits) {
      Vector& vector = vectors.emplace_back(floats_of(p, weight, logit.token));
      for (std::size_t i = 0; i < vector.size(); ++i) {
        vector[i] =
            static_cast<float>((static_cast<double>(vector[i]) - mean[i] / static_cast<double>(n)) * head.scale);
      }
      const double own = bias.empty() ? 0 : static_cast<double>(bias[static_cast<std::size_t>(logit.token)]);
      biases.push_back((own - mean_bias) * static_cast<double>(head.scale));
    }
  }
};

/// Finds the values of a linear pass at which gradients begin and end.
class LinearTaps : public Taps {
 public:
  using Receive = std::function<void(const SiteId&, const Tensor& value, const Tensor& gradient)>;

  LinearTaps(const GenerateContext& context, Receive receive) : receive_(std::move(receive)) {
    for (const AppliedDictionary& applied : context.modifiers.dictionaries) all_.push_back(applied.dictionary.get());
    const BlockSite first{-1, context.model->config().stack()};
    for (const Site site : {Site::embed, Site::pos_embed, Site::type_embed}) sources_.push_back(first(site));
  }

  bool wants(const SiteId& id) const override { return is_input(id) || wants_gradient(id); }
  bool wants_gradient(const SiteId& id) const override { return is_output(id) || std::ranges::count(sources_, id) > 0; }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    if (is_input(id)) inputs_.emplace_back(id, value);
    if (wants_gradient(id)) values_.emplace_back(id, value);
    return value;
  }
  void visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) override {
    if (receive_) receive_(id, find(values_, id), gradient);
  }
  const Tensor& input(const SiteId& id) const { return find(inputs_, id); }

 private:
  using Values = std::vector<std::pair<SiteId, Tensor>>;

  bool is_input(const SiteId& id) const {
    return std::ranges::any_of(all_, [&](const Dictionary* d) { return d->input == id; });
  }
  bool is_output(const SiteId& id) const {
    return id.dictionary != nullptr && id.value == DictionarySite::output &&
           std::ranges::any_of(all_, [&](const Dictionary* d) { return d->at(DictionarySite::output) == id; });
  }
  static const Tensor& find(const Values& values, const SiteId& id) {
    const auto found = std::ranges::find(values, id, &Values::value_type::first);
    if (found == values.end()) throw InternalError("circuit", "expected a value at {}", name_of(id));
    return found->second;
  }

  Receive receive_;
  std::vector<const Dictionary*> all_;
  std::vector<SiteId> sources_;
  Values inputs_, values_;
};

class TapeRows : public LinearRows {
 public:
  TapeRows(const GenerateContext& context, const CircuitValues& values)
      : model_(*context.model),
        values_(values),
        biases_(model_),
        taps_(context,
              [this](const SiteId& id, const Tensor& value, const Tensor& gradient) { receive(id, value, gradient); }) {
    for (std::int64_t layer = 0; layer < values.n_layers(); ++layer) writers_.emplace_back(values, layer);
  }

  Taps& taps() { return taps_; }
  Gradients& gradients() { return biases_.gradients(); }

  /// Sets what remains of the pass to its end.
  void begin(Pass& p, const Tensor& normed) {
    p_ = &p;
    normed_ = normed;
    logits_.emplace(p, model_, values_.logits);
    for (const Dictionary* d : values_.transcoders) add_constants_of(*d);
  }

  RowShape shape_of(std::int64_t node) const override {
    const NodeLayout& layout = values_.layout;
    if (node >= layout.n_features()) return {layout, layout.n_layers(), layout.n_tokens() - 1};
    const FeatureNode& feature = values_.features[static_cast<std::size_t>(node)];
    return {layout, feature.layer, feature.position};
  }

  GraphRow compute(std::int64_t node, std::span<float> row) override {
    p_->check_interrupt();
    const RowShape shape = shape_of(node);
    std::ranges::fill(row, 0.0f);
    row_ = row;
    shape_ = &shape;
    bias_ = 0;
    last_ = node < values_.layout.n_features() ? values_.features[static_cast<std::size_t>(node)].position
                                               : values_.layout.n_tokens() - 1;
    const double value = node < values_.layout.n_features() ? seed_feature(node) : seed_logit(node);
    p_->training.tape->replay();
    bias_ += biases_.take(*p_);
    check_sum(node, row, value);
    return {node, bias_, value};
  }

 private:
  /// What a transcoder writes that is no node's: b_dec; at the first tokens all that its skip connection does not
  /// write. If that reads x − b, −W_skip b is part of it.
  void add_constants_of(const Dictionary& d) {
    const auto n = static_cast<std::size_t>(d.d_out());
    Vector& constant = constants_.emplace_back(d.decoder_bias.present() ? floats_of(*p_, d.decoder_bias) : Vector(n));
    Vector& at_zeros = constants_at_zeros_.emplace_back(values_.constants[constants_.size() - 1]);
    if (!d.skip.present() || !d.skip_reads_centered || !d.subtracted.present()) return;
    const Vector b = floats_of(*p_, d.subtracted);
    for (std::size_t i = 0; i < n; ++i) {
      const double skipped = product_of(b, floats_of(*p_, d.skip, static_cast<std::int64_t>(i)).data());
      constant[i] -= static_cast<float>(skipped);
      for (std::size_t at = i; at < at_zeros.size(); at += n) at_zeros[at] -= static_cast<float>(skipped);
    }
  }

  /// Returns the value of the node.
  double seed_feature(std::int64_t node) {
    const FeatureNode& feature = values_.features[static_cast<std::size_t>(node)];
    const Dictionary& d = *values_.transcoders[static_cast<std::size_t>(feature.layer)];
    const auto i = static_cast<std::size_t>(feature.index);
    const Tensor& x = taps_.input(d.input);
    Vector w = floats_of(*p_, d.encoder, feature.index);
    const FeatureSelection& selection = d.selection;
    if (!selection.gains.empty()) {
      for (float& v : w) v *= selection.gains[i];
    }
    if (d.subtracted.present()) bias_ -= product_of(w, floats_of(*p_, d.subtracted).data());
    if (d.encoder_bias.present()) bias_ += static_cast<double>(floats_of(*p_, d.encoder_bias)[i]);
    const std::int64_t n = d.d_in();
    undo_input_scaling(*p_, d, x.data + feature.position * n, w);
    std::copy_n(w.data(), n, p_->grad(x).data + feature.position * n);
    return static_cast<double>(feature.activation) /
           (selection.norms.empty() ? 1.0 : static_cast<double>(selection.norms[i]));
  }
  double seed_logit(std::int64_t node) {
    const auto i = static_cast<std::size_t>(node - values_.layout.logit(0));
    std::ranges::copy(logits_->vectors[i], p_->grad(normed_).data);
    bias_ += logits_->biases[i];
    return static_cast<double>(values_.logits[i].value);
  }

  void receive(const SiteId& id, const Tensor& value, const Tensor& gradient) {
    if (id.dictionary != nullptr) return receive_layer(id.layer, gradient);
    const std::int64_t n = gradient.row_size();
    if (id.site != Site::embed) {
      for (std::int64_t t = 0; t <= last_; ++t)
        bias_ += product_of({value.row(t), static_cast<std::size_t>(n)}, gradient.row(t));
      return;
    }
    const std::int64_t first = shape_->tokens().offset;
    p_->for_rows(last_ + 1, n, [&](std::int64_t t) {
      row_[static_cast<std::size_t>(first + t)] = p_->kernels.dot(value.row(t), gradient.row(t), n);
    });
  }

  /// The gradient with respect to the value at a transcoder's output site.
  void receive_layer(std::int64_t layer, const Tensor& gradient) {
    const Dictionary& d = *values_.transcoders[static_cast<std::size_t>(layer)];
    const std::int64_t n = d.d_out();
    writers_[static_cast<std::size_t>(layer)].add(*p_, d.decoder, gradient, last_, shape_->features(layer), row_);
    for (const EarlierDecoder& earlier : d.earlier) {
      const std::int64_t from = earlier.from->output.layer;
      writers_[static_cast<std::size_t>(from)].add(*p_, earlier.weight, gradient, last_, shape_->features(from), row_);
    }
    const float* const errors = values_.errors[static_cast<std::size_t>(layer)].data();
    const std::int64_t first = shape_->errors(layer).offset;
    p_->for_rows(last_ + 1, n, [&](std::int64_t t) {
      row_[static_cast<std::size_t>(first + t)] = p_->kernels.dot(errors + t * n, gradient.data + t * n, n);
    });
    add_constants(layer, gradient, n);
  }
  void add_constants(std::int64_t layer, const Tensor& gradient, std::int64_t n) {
    const Vector& constant = constants_[static_cast<std::size_t>(layer)];
    const Vector& at_zeros = constants_at_zeros_[static_cast<std::size_t>(layer)];
    for (std::int64_t t = 0; t <= last_; ++t) {
      const float* const own = t < values_.zero_positions ? at_zeros.data() + t * n : constant.data();
      bias_ += product_of({own, static_cast<std::size_t>(n)}, gradient.data + t * n);
    }
  }

  /// Rounding aside, the pass is linear, so row and bias are the value.
  void check_sum(std::int64_t node, std::span<const float> row, double value) const {
    constexpr double kTolerance = 1e-3;
    double sum = bias_, size = std::abs(bias_) + std::abs(value);
    for (const float edge : row) {
      sum += static_cast<double>(edge);
      size += std::abs(static_cast<double>(edge));
    }
    if (std::abs(sum - value) <= kTolerance * (size + 1)) return;
    throw InternalError("circuit", "the edges of node {} add up to {}, its value is {}", node, sum, value);
  }

  const Model& model_;
  const CircuitValues& values_;
  BiasEffects biases_;
  LinearTaps taps_;
  std::vector<FeatureWriters> writers_;
  Pass* p_ = nullptr;
  Tensor normed_{};
  std::optional<LogitVectors> logits_{};
  std::vector<Vector> constants_{}, constants_at_zeros_{};  // by layer: `[d]`, `[zero_positions, d]`
  // Of the row that is being computed.
  std::span<float> row_{};
  const RowShape* shape_ = nullptr;
  std::int64_t last_ = 0;
  double bias_ = 0;
};

void linearize(Pass& p, Tape& tape, std::int64_t n_tokens) {
  p.compute = Compute::f32;
  p.training.tape = &tape;
  p.training.linearizes = true;
  p.hidden_rows = std::vector<std::int64_t>{n_tokens - 1};
}

}  // namespace

void with_linear_rows(const GenerateContext& given, std::span<const std::int32_t> ids, const CircuitValues& values,
                      const std::function<void(LinearRows&)>& use) {
  TapeRows rows(given, values);
  GenerateContext context = given;
  context.taps = &rows.taps();
  Arena arena;
  Tape tape(rows.gradients());
  Pass pass = text_pass(context, arena, ids);
  linearize(pass, tape, std::ssize(ids));
  pass.receive_hidden = [&](const Tensor& normed) {
    rows.begin(pass, normed);
    use(rows);
  };
  context.model->forward(pass, ids);
}

std::int64_t linear_pass_bytes(const GenerateContext& context, std::int64_t n_tokens) {
  const Model model = shape_model(context.model->config());
  DryPass dry(*context.pool, {{0, n_tokens}});
  Pass& pass = dry.pass();
  for (Segment& segment : pass.segments) segment.modifiers = context.modifiers;
  LinearTaps taps(context, {});
  pass.taps = &taps;
  Gradients none;
  Tape tape(none, &dry.gradient_memory());
  linearize(pass, tape, n_tokens);
  pass.receive_hidden = [&](const Tensor& normed) {
    pass.grad(normed);
    tape.replay();
  };
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(n_tokens));
  model.forward(pass, ids);
  return dry.bytes();
}

}  // namespace vitrine
