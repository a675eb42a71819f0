#include "inspect/integrated_gradients.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "inspect/objective.h"
#include "inspect/text_pass.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// Points and weights of Gauss–Legendre quadrature over [0, 1].
struct Quadrature {
  std::vector<double> points, weights;
};

/// The roots of the Legendre polynomial P_n by Newton's method. Source: Press et al., Numerical Recipes, §4.6.
Quadrature gauss_legendre(std::int64_t n) {
  constexpr double kPi = 3.14159265358979323846;
  Quadrature q;
  for (std::int64_t i = 0; i < n; ++i) {
    double x = math::cos(kPi * (static_cast<double>(i) + 0.75) / (static_cast<double>(n) + 0.5)), slope = 1;
    for (int round = 0; round < 100; ++round) {
      double value = 1, before = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        const auto order = static_cast<double>(k);
        const double next = ((2 * order + 1) * x * value - order * before) / (order + 1);
        before = value;
        value = next;
      }
      slope = static_cast<double>(n) * (x * value - before) / (x * x - 1);
      const double step = value / slope;
      x -= step;
      if (std::abs(step) < 1e-15) break;
    }
    q.points.push_back((1 - x) / 2);
    q.weights.push_back(1 / ((1 - x * x) * slope * slope));
  }
  return q;
}

/// Puts points of the path in place of the embeddings of segments, and takes their gradients.
class PathTaps : public Taps {
 public:
  PathTaps(SiteId at, const std::vector<float>& from, std::span<const double> points, std::size_t n)
      : at_(at), from_(from), points_(points), n_(n) {}

  bool wants(const SiteId& id) const override { return id == at_; }
  bool wants_gradient(const SiteId& id) const override { return id == at_; }

  Tensor visit(Pass& pass, const SiteId&, const Tensor& value) override {
    const Tensor result = pass.tensor(value.shape);
    const auto per_text = static_cast<std::size_t>(value.row_size()) * n_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(value.count()); ++i) {
      const auto from = static_cast<double>(from_[i % per_text]), to = static_cast<double>(value.data[i]);
      result.data[i] = static_cast<float>(from + points_[i / per_text] * (to - from));
    }
    if (pass.is_taped()) pass.record(OpKind::write, {value}, result, [] {});
    to_.assign(value.data, value.data + per_text);
    return result;
  }
  void visit_gradient(Pass&, const SiteId&, const Tensor& gradient) override {
    gradients_.assign(gradient.data, gradient.data + gradient.count());
  }

  /// Adds weight · gradient · (to − from), summed over the elements of each token.
  void add_to(std::span<const double> weights, std::vector<double>& tokens) const {
    const std::size_t d = to_.size() / n_;
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const std::size_t own = i % to_.size();
      const double change = static_cast<double>(to_[own]) - static_cast<double>(from_[own]);
      tokens[own / d] += weights[i / to_.size()] * static_cast<double>(gradients_[i]) * change;
    }
  }

 private:
  SiteId at_;
  const std::vector<float>& from_;  // of one text
  std::span<const double> points_;
  std::size_t n_;
  std::vector<float> to_, gradients_;
};

/// The embeddings of the text with the baseline in it, `[n, d]`.
std::vector<float> baseline_embeddings(const GenerateContext& context, const Tokens& tokens, const PathOptions& o,
                                       SiteId at) {
  std::vector<std::int32_t> ids(tokens.ids.begin(), tokens.ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (o.keeps.empty() || !o.keeps[i]) ids[i] = o.baseline;
  }
  context.check_ids(ids);
  std::vector<float> from;
  SiteReader reader(
      {at}, [&](Pass&, const SiteId&, const Tensor& value) { from.assign(value.data, value.data + value.count()); });
  Arena arena;
  const Tokens replaced(ids, tokens.types);
  Pass pass = text_pass(context, arena, replaced);
  pass.taps = &reader;
  context.model->forward(pass, replaced);
  return from;
}

/// The explained numbers of texts of one length that share a pass.
class ExplainedNumbers {
 public:
  ExplainedNumbers(const Model& model, const Tokens& text, const LabelChoice& choice)
      : model_(model), choice_(choice), length_(std::ssize(text.ids)) {
    if (choice.is_next_word) {
      check_next_word(model, choice);
      return;
    }
    const TaskHead& head = head_of_labels(model);
    rows_of_text_ = head.pool == TaskHead::Pool::none ? length_ : 1;
    row_ = output_row(head, text, choice);
  }

  /// Requests the numbers of all texts from the pass, which adds them to `values`.
  void request(Pass& pass, std::vector<double>& values) const {
    if (choice_.is_next_word) {
      pass.logits.rows = LogitRequest::Rows::last_of_segments;
      pass.logits.receive = [this, &values](std::int64_t, const Tensor& logits) {
        for (std::int64_t i = 0; i < logits.rows(); ++i) values.push_back(number_in(logits.row(i)));
      };
      return;
    }
    pass.receive_outputs = [this, &values](const Tensor& all) {
      for (std::int64_t row = row_; row < all.rows(); row += rows_of_text_) values.push_back(number_in(all.row(row)));
    };
  }

  /// Runs the pass forward and backward from the sum of the numbers.
  void backward(Pass& pass, const Tokens& all) const {
    if (choice_.is_next_word) return backward_from_terms(model_, pass, all, terms(pass, length_, length_ - 1));
    const std::int64_t n_labels = head_of_labels(model_).n_labels();
    std::vector<float> gradients(pass.segments.size() * static_cast<std::size_t>(rows_of_text_ * n_labels));
    for (const LogitTerm& term : terms(pass, rows_of_text_, row_)) {
      gradients[static_cast<std::size_t>(term.row * n_labels + term.id)] += term.factor;
    }
    Gradients of_no_params;
    backward_from_outputs(model_, pass, all, gradients, of_no_params);
  }

 private:
  double number_in(const float* row) const {
    const double value = static_cast<double>(row[choice_.label]);
    return choice_.against ? value - static_cast<double>(row[*choice_.against]) : value;
  }
  /// Row `row` of the `per_text` rows of each text.
  std::vector<LogitTerm> terms(const Pass& pass, std::int64_t per_text, std::int64_t row) const {
    std::vector<LogitTerm> all;
    for (std::int64_t i = 0; i < std::ssize(pass.segments); ++i) {
      all.push_back({i * per_text + row, static_cast<std::int32_t>(choice_.label), 1.0f});
      if (choice_.against) all.push_back({i * per_text + row, static_cast<std::int32_t>(*choice_.against), -1.0f});
    }
    return all;
  }

  const Model& model_;
  const LabelChoice& choice_;
  std::int64_t length_, rows_of_text_ = 1, row_ = 0;
};

/// The text at points of the path, each a segment of a pass.
struct PathTexts {
  std::vector<Segment> segments{};
  std::vector<std::int32_t> ids{}, types{};

  PathTexts(const Tokens& text, std::size_t n_points) {
    const std::int64_t n = std::ssize(text.ids);
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(n_points); ++k) {
      segments.push_back({k * n, n});
      ids.insert(ids.end(), text.ids.begin(), text.ids.end());
      types.insert(types.end(), text.types.begin(), text.types.end());
    }
  }
};

}  // namespace

TokenAttribution integrate_gradients(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                     const PathOptions& options) {
  constexpr std::size_t kMaxRows = 1024;  // of a pass
  const Model& model = *context.model;
  const SiteId at = BlockSite{-1, model.config().stack()}(Site::embed);
  const std::size_t n = tokens.ids.size();
  const ExplainedNumbers numbers(model, tokens, choice);
  const std::vector<float> from = baseline_embeddings(context, tokens, options, at);
  const auto run = [&](PathTaps& taps, std::size_t n_points, const auto& pass_over) {
    const PathTexts texts(tokens, n_points);
    Arena arena;
    Pass pass = text_pass(context, arena, tokens);
    pass.segments = texts.segments;
    pass.taps = &taps;
    pass.compute = Compute::f32;
    pass_over(pass, Tokens(texts.ids, texts.types));
  };

  TokenAttribution result;
  result.tokens.resize(n);
  const std::vector<double> ends = {0, 1};
  PathTaps taps_of_ends(at, from, ends, n);
  std::vector<double> outputs;
  run(taps_of_ends, ends.size(), [&](Pass& pass, const Tokens& all) {
    numbers.request(pass, outputs);
    model.forward(pass, all);
  });
  result.baseline = outputs[0];
  result.output = outputs[1];
  const Quadrature q = gauss_legendre(options.steps);
  const std::size_t per_pass = std::max<std::size_t>(1, kMaxRows / n);
  for (std::size_t first = 0; first < q.points.size(); first += per_pass) {
    const std::size_t count = std::min(per_pass, q.points.size() - first);
    PathTaps taps(at, from, std::span(q.points).subspan(first, count), n);
    run(taps, count, [&](Pass& pass, const Tokens& all) { numbers.backward(pass, all); });
    taps.add_to(std::span(q.weights).subspan(first, count), result.tokens);
  }
  return result;
}

}  // namespace vitrine
