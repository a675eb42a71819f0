#include "inspect/label_attribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "inspect/stream_parts.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

constexpr SiteId of_head(Site site) { return {site, -1, -1}; }

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
    rows_ = task_rows(pass, head_of_labels(*context.model), tokens.ids);
    context.model->forward(pass, tokens);
  }

  /// The rows of the stream that the head reads for one row of outputs.
  std::vector<std::int64_t> rows(std::int64_t position) const {
    const TaskHead::Pool pool = head_of_labels(*context_.model).pool;
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
  const TaskHead& head = head_of_labels(*context.model);
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

/// The split of the logit of the next word, times the head's factor of logits.
LabelAttribution attribute_next_word(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                     bool by_head) {
  check_next_word(*context.model, choice);
  AttributionOptions options;
  options.token = static_cast<std::int32_t>(choice.label);
  if (choice.against) options.against = static_cast<std::int32_t>(*choice.against);
  options.by_head = by_head;
  Attribution found = attribute(context, tokens, options);
  const double scale = static_cast<double>(context.model->config().head.scale);
  for (AttributionTerm& term : found.terms) term.value *= scale;
  return {std::move(found.terms), found.sum * scale, found.logit};
}

}  // namespace

const TaskHead& head_of_labels(const Model& model) {
  const auto& head = model.config().task;
  if (!head) throw Unsupported("attribute", "the model has no labels: it is no classifier");
  return *head;
}

std::int64_t output_row(const TaskHead& head, const Tokens& tokens, const LabelChoice& choice) {
  if (head.pool != TaskHead::Pool::none) return 0;
  return resolve_position(choice.position, static_cast<std::int64_t>(tokens.ids.size()));
}

void check_next_word(const Model& model, const LabelChoice& choice) {
  const ModelConfig& config = model.config();
  if (!config.has_head || config.encoder) {
    throw Unsupported("attribute", "the model has no head whose logits of a next word are explained");
  }
  const std::size_t largest = std::max(choice.label, choice.against.value_or(0));
  if (largest < static_cast<std::size_t>(config.vocab_size)) return;
  throw BadInput("attribute", "expected ids of tokens below {}, got {}", config.vocab_size, largest);
}

LabelAttribution attribute_label(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                 bool by_head) {
  if (choice.is_next_word) return attribute_next_word(context, tokens, choice, by_head);
  const Model& model = *context.model;
  const TaskHead& head = head_of_labels(*context.model);
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

}  // namespace vitrine
