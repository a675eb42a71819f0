#include "inspect/label_attribution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "inspect/objective.h"
#include "inspect/stream_parts.h"
#include "ops/elementwise.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr SiteId of_head(Site site) { return {site, -1, -1}; }

const TaskHead& task_of(const GenerateContext& context) {
  const auto& head = context.model->config().task;
  if (!head) throw Unsupported("attribute", "the model has no labels: it is no classifier");
  return *head;
}

/// The values of a whole run at the sites of the parts and of the head.
class LabelRun {
 public:
  LabelRun(const GenerateContext& context, const Tokens& tokens, bool by_head)
      : context_(context), tokens_(tokens), sites_(sites_of_parts(*context.model, by_head)) {
    std::vector<SiteId> wanted = sites_;
    wanted.push_back(of_head(Site::head_labels));
    SiteReader reader(wanted, [&](Pass&, const SiteId& id, const Tensor& value) {
      values_.push_back({id, {value.data, value.data + value.count()}, value.shape});
    });
    Arena arena;
    Pass pass = text_pass(context, arena, tokens);
    pass.taps = &reader;
    pass.receive_outputs = [](const Tensor&) {};
    rows_ = task_rows(pass, task_of(context), tokens.ids);
    context.model->forward(pass, tokens);
  }

  /// The rows of the stream that the head reads for one row of outputs.
  std::vector<std::int64_t> rows(std::int64_t position) const {
    const TaskHead::Pool pool = task_of(context_).pool;
    if (pool == TaskHead::Pool::none) return {position};
    if (pool != TaskHead::Pool::mean) return rows_;
    std::vector<std::int64_t> all(tokens_.ids.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return all;
  }

  PositionValues at(std::int64_t row) const {
    PositionValues values;
    Arena arena;
    Pass pass = text_pass(context_, arena, tokens_);
    for (const SiteId& site : sites_) {
      const Recorded* const found = find(site);
      if (found == nullptr) continue;
      // The final norm reads only the head's row, if there is one.
      add_value(*context_.model, pass, row, site, found->row(found->shape[0] == 1 ? 0 : row), values);
    }
    return values;
  }

  double output(std::int64_t row, const LabelChoice& choice) const {
    const Tensor of_row = find(of_head(Site::head_labels))->row(row);
    const auto at_label = [&](std::size_t label) { return static_cast<double>(of_row.data[label]); };
    return at_label(choice.label) - (choice.against ? at_label(*choice.against) : 0.0);
  }

 private:
  struct Recorded {
    SiteId id;
    std::vector<float> values;
    Shape shape;

    Tensor row(std::int64_t i) const {
      return Tensor{const_cast<float*>(values.data()), shape}.row_range(i, 1);  // is only read
    }
  };
  const Recorded* find(const SiteId& id) const {
    const auto found = std::find_if(values_.begin(), values_.end(), [&](const Recorded& r) { return r.id == id; });
    return found == values_.end() ? nullptr : &*found;
  }

  const GenerateContext& context_;
  const Tokens& tokens_;
  std::vector<SiteId> sites_;
  std::vector<Recorded> values_;
  std::vector<std::int64_t> rows_;
};

std::vector<double> sum_of_parts(const std::vector<StreamPart>& parts) {
  std::vector<double> sum(parts.front().vector.size());
  for (const StreamPart& part : parts) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.vector[i];
  }
  return sum;
}

/// activation(y) of a row, by its op.
std::vector<double> activated(const GenerateContext& context, Activation kind, const std::vector<double>& y) {
  Arena arena;
  Pass pass = context.make_pass(arena, {{0, 1}});
  const Tensor row = pass.tensor({1, static_cast<std::int64_t>(y.size())});
  std::transform(y.begin(), y.end(), row.data, [](double v) { return static_cast<float>(v); });
  const Tensor result = activate(pass, kind, row);
  return {result.data, result.data + result.count()};
}

/// Every part times (activation(y) − activation(0)) / y, and activation(0) as a part. `y`: the sum of the parts.
void apply_activation(const GenerateContext& context, Activation kind, std::vector<StreamPart>& parts) {
  std::vector<double> y = sum_of_parts(parts);
  for (double& v : y) v = static_cast<double>(static_cast<float>(v));  // as the op reads it
  const std::vector<double> result = activated(context, kind, y);
  const double at_zero = activated(context, kind, {0.0}).front();
  std::vector<double> ratios(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) ratios[i] = y[i] != 0 ? (result[i] - at_zero) / y[i] : 0.0;
  for (StreamPart& part : parts) {
    for (std::size_t i = 0; i < ratios.size(); ++i) part.vector[i] *= ratios[i];
  }
  if (at_zero != 0) parts.push_back({"head.activation", std::vector<double>(y.size(), at_zero)});
}

/// The divisor of a norm of a row.
double divisor_of(const NormConfig& c, const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = c.kind == NormConfig::Kind::layer ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0.0;
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / n + static_cast<double>(c.eps));
}

/// All parts of the row that `out` multiplies.
std::vector<StreamPart> head_parts(const GenerateContext& context, const LabelRun& run, std::int64_t position,
                                   bool by_head) {
  const Model& model = *context.model;
  const TaskHead& head = task_of(context);
  const std::vector<std::int64_t> rows = run.rows(position);
  std::vector<StreamPart> parts;
  for (const std::int64_t row : rows) {
    std::vector<StreamPart> own = stream_parts(model, context.modifiers.controls, run.at(row), by_head);
    if (parts.empty()) {
      parts = std::move(own);
      continue;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (std::size_t j = 0; j < parts[i].vector.size(); ++j) parts[i].vector[j] += own[i].vector[j];
    }
  }
  for (StreamPart& part : parts) {
    for (double& x : part.vector) x /= static_cast<double>(rows.size());
  }
  if (!head.dense) return parts;
  const TaskHeadParams& w = model.params().task;
  apply_linear(w.dense, "head.dense.bias", parts);
  if (head.activation) apply_activation(context, *head.activation, parts);
  if (head.norm) {
    apply_norm(*head.norm, w.norm, divisor_of(*head.norm, sum_of_parts(parts)), parts);
    if (head.norm->bias) parts.push_back({"head.norm.bias", doubles_of(w.norm.bias.view, 0)});
  }
  return parts;
}

void refuse_adapted_head(const GenerateContext& context) {
  for (const AppliedAdapter& applied : context.modifiers.adapters) {
    for (const char* const name : {"head.dense.weight", "head.out.weight"}) {
      if (applied.adapter->find(name) == nullptr) continue;
      throw Unsupported("attribute", "an adapter changes the head; merge it first (vitrine lora merge)");
    }
  }
}

/// The row of the outputs that `choice` names.
std::int64_t output_row(const TaskHead& head, const Tokens& tokens, const LabelChoice& choice) {
  if (head.pool != TaskHead::Pool::none) return 0;
  return resolve_position(choice.position, static_cast<std::int64_t>(tokens.ids.size()));
}

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

/// Runs the text at points of the path, each a segment of a pass; with `weights`, adds their gradients to `tokens`.
/// Returns the outputs.
std::vector<double> run_path(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                             PathTaps& taps, std::size_t n_points, std::span<const double> weights,
                             std::vector<double>& attributions) {
  const TaskHead& head = task_of(context);
  const std::size_t n = tokens.ids.size(), n_labels = head.labels.size();
  const auto rows_of_text = head.pool == TaskHead::Pool::none ? n : std::size_t{1};
  const auto row = static_cast<std::size_t>(output_row(head, tokens, choice));
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.segments.clear();
  std::vector<std::int32_t> ids, types;
  std::vector<float> gradients(n_points * rows_of_text * n_labels);
  for (std::size_t k = 0; k < n_points; ++k) {
    pass.segments.push_back({static_cast<std::int64_t>(k * n), static_cast<std::int64_t>(n)});
    ids.insert(ids.end(), tokens.ids.begin(), tokens.ids.end());
    types.insert(types.end(), tokens.types.begin(), tokens.types.end());
    const std::size_t first = (k * rows_of_text + row) * n_labels;
    gradients[first + choice.label] += 1.0f;
    if (choice.against) gradients[first + *choice.against] -= 1.0f;
  }
  std::vector<double> outputs;
  pass.taps = &taps;
  pass.compute = Compute::f32;
  pass.receive_outputs = [&](const Tensor& all) {
    for (std::size_t k = 0; k < n_points; ++k) {
      const float* const own = all.row(static_cast<std::int64_t>(k * rows_of_text + row));
      const auto of_label = [&](std::size_t label) { return static_cast<double>(own[label]); };
      outputs.push_back(of_label(choice.label) - (choice.against ? of_label(*choice.against) : 0.0));
    }
  };
  const Tokens all(ids, types);
  if (weights.empty()) {
    context.model->forward(pass, all);
    return outputs;
  }
  Gradients of_no_params;
  backward_from_outputs(*context.model, pass, all, gradients, of_no_params);
  taps.add_to(weights, attributions);
  return outputs;
}

}  // namespace

LabelAttribution attribute_label(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                 bool by_head) {
  const Model& model = *context.model;
  const TaskHead& head = task_of(context);
  check_stream_parts(model.config());
  refuse_adapted_head(context);
  const std::int64_t row = output_row(head, tokens, choice);
  const LabelRun run(context, tokens, by_head);
  const TaskHeadParams& w = model.params().task;
  const auto difference = [&](const MatrixView& view, std::size_t i, std::size_t j) {
    std::vector<double> values = doubles_of(view, static_cast<std::int64_t>(i));
    if (!choice.against) return values;
    const std::vector<double> other = doubles_of(view, static_cast<std::int64_t>(j));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] -= other[k];
    return values;
  };
  const std::vector<double> out = difference(w.out.weight.view, choice.label, choice.against.value_or(0));
  LabelAttribution result;
  const auto add = [&](const std::string& name, double value) {
    result.terms.push_back({name, value});
    result.sum += value;
  };
  for (const StreamPart& part : head_parts(context, run, row, by_head)) {
    add(part.name, std::inner_product(part.vector.begin(), part.vector.end(), out.begin(), 0.0));
  }
  if (w.out.bias.present()) {
    const std::vector<double> bias = doubles_of(w.out.bias.view, 0);
    add("head.bias", bias[choice.label] - (choice.against ? bias[*choice.against] : 0.0));
  }
  result.output = run.output(row, choice);
  return result;
}

TokenAttribution integrate_gradients(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                     const PathOptions& options) {
  constexpr std::size_t kMaxRows = 1024;  // of a pass
  const SiteId at = BlockSite{-1, context.model->config().stack()}(Site::embed);
  const std::size_t n = tokens.ids.size();
  task_of(context);
  const std::vector<float> from = baseline_embeddings(context, tokens, options, at);
  TokenAttribution result;
  result.tokens.resize(n);
  const std::vector<double> ends = {0, 1};
  PathTaps taps_of_ends(at, from, ends, n);
  const std::vector<double> outputs = run_path(context, tokens, choice, taps_of_ends, 2, {}, result.tokens);
  result.baseline = outputs[0];
  result.output = outputs[1];
  const Quadrature q = gauss_legendre(options.steps);
  const std::size_t per_pass = std::max<std::size_t>(1, kMaxRows / n);
  for (std::size_t first = 0; first < q.points.size(); first += per_pass) {
    const std::size_t count = std::min(per_pass, q.points.size() - first);
    PathTaps taps(at, from, std::span(q.points).subspan(first, count), n);
    run_path(context, tokens, choice, taps, count, std::span(q.weights).subspan(first, count), result.tokens);
  }
  return result;
}

}  // namespace vitrine
