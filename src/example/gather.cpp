// Makes a WorkedExample from one step: the sections in the order of computation, with labels and cells.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "example/facts.h"
#include "example/spell.h"

namespace vitrine {
namespace {

using Slopes = std::map<std::string, std::vector<Difference>>;

std::vector<std::string> numbers(std::int64_t n) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(std::to_string(i));
  return labels;
}

/// "1.0": head 1, its element 0.
std::vector<std::string> head_elements(std::int64_t heads, std::int64_t size) {
  std::vector<std::string> labels;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t e = 0; e < size; ++e) labels.push_back(fmt::format("{}.{}", h, e));
  }
  return labels;
}

class Gatherer {
 public:
  Gatherer(const ExampleModel& model, const Facts& facts, const Slopes& slopes)
      : model_(model), f_(facts), slopes_(slopes) {
    for (std::int64_t id = 0; id < facts.config->vocab_size; ++id) {
      const auto at = static_cast<std::size_t>(id);
      labels_.push_back(at < model.words.size() ? model.words[at] : "#" + std::to_string(id));
    }
    for (std::size_t t = 0; t < facts.ids.size(); ++t) {
      tokens_.push_back(fmt::format("{} {}", t, labels_[static_cast<std::size_t>(facts.ids[t])]));
    }
  }

  WorkedExample gather() {
    add_params();
    add_forward();
    add_backward();
    add_update();
    add_prediction();
    WorkedExample& e = example_;
    e.title = model_.title;
    e.about = model_.about;
    e.ids = f_.ids;
    e.labels = labels_;
    e.target = f_.targets.back();
    for (const auto& [name, param] : f_.params) e.n_params += param.shape.count();
    e.loss = f_.loss;
    e.loss_after = f_.loss_after;
    e.probability = static_cast<double>(last_of(f_.values.at("softmax"), e.target));
    e.probability_after = static_cast<double>(last_of(f_.softmax_after, e.target));
    return std::move(example_);
  }

 private:
  float last_of(const Seen& x, std::int64_t column) const { return x[(f_.n_tokens() - 1) * x.last_size() + column]; }

  ExampleSection& add(ExamplePart part, const std::string& name, const Seen& value, const SectionWords& words,
                      std::string meaning = "") {
    ExampleSection section;
    section.part = part;
    section.begins_part = example_.sections.empty() || example_.sections.back().part != part;
    section.name = name;
    section.meaning = std::move(meaning);
    section.formula = words.formula;
    section.file = words.file;
    section.shape = value.shape;
    section.values = value.values;
    example_.sections.push_back(std::move(section));
    return example_.sections.back();
  }

  void label_param(ExampleSection& s, const std::string& name) const {
    const Shape& shape = s.shape;
    s.columns = numbers(shape[shape.rank() - 1]);
    if (shape.rank() == 1) return;
    s.rows = numbers(shape[0]);
    if (name == "embed.weight" || name == "unembed.weight") s.rows = labels_;
    // Rows are labelled by the heads of the value that the parameter makes, columns by those of its input.
    const StepOp* const op = op_with(name);
    if (op == nullptr || op->inputs.empty()) return;
    const Shape &made = f_.operands[op->output].site_shape, &read = f_.operands[op->inputs[0]].site_shape;
    if (made.rank() == 3 && shape[0] == made[1] * made[2]) s.rows = head_elements(made[1], made[2]);
    if (read.rank() == 3 && shape[1] == read[1] * read[2]) s.columns = head_elements(read[1], read[2]);
  }

  /// The first op that has the parameter as its weight; null if there is none.
  const StepOp* op_with(const std::string& param) const {
    const auto it = std::find_if(f_.ops.begin(), f_.ops.end(), [&](const StepOp& op) { return op.param == param; });
    return it == f_.ops.end() ? nullptr : &*it;
  }
  /// The site that a parameter's op makes; "" if there is none.
  std::string site_made_with(const std::string& param) const {
    const StepOp* const op = op_with(param.substr(0, param.rfind('.')) + ".weight");
    return op == nullptr ? "" : f_.operands[op->output].name;
  }
  std::string meaning_of_param(const std::string& param) const {
    const std::string made = site_made_with(param);
    return made.empty() ? "" : "makes " + made;
  }

  void label_site(ExampleSection& s, const SiteId& id) const {
    const std::string letters = to_string(info(id.site).shape);
    const bool by_token = letters.starts_with("[T");
    s.by_first = letters == "[H, T, S]";
    if (s.by_first) {
      s.rows = s.columns = tokens_;
      return;
    }
    s.rows = by_token ? tokens_ : numbers(s.shape[0]);
    if (s.shape.rank() == 1) {
      s.columns = std::move(s.rows);
      s.rows.clear();
    } else if (s.shape.rank() == 3) {
      s.columns = head_elements(s.shape[1], s.shape[2]);
    } else {
      s.columns = letters.ends_with("V]") ? labels_ : numbers(s.shape[1]);
    }
  }

  void add_params() {
    for (const TrainParam& p : model_.trainable.params()) {
      ExampleSection& s = add(ExamplePart::model, p.name, f_.params.at(p.name), {}, meaning_of_param(p.name));
      label_param(s, p.name);
      if (p.name == "pos_embed.weight") {
        s.rows = numbers(p.shape[0]);
        if (std::count(f_.frozen.begin(), f_.frozen.end(), p.name) > 0) s.meaning += "; fixed, not learned";
      }
      std::vector<std::string> rows(static_cast<std::size_t>(p.shape[0]), model_.otherwise);
      for (const ExampleModel::Origin& origin : model_.origins) {
        if (origin.param == p.name) std::fill_n(rows.begin() + origin.first, origin.count, origin.text);
      }
      const bool alike = std::all_of(rows.begin(), rows.end(), [&](const auto& text) { return text == rows.front(); });
      s.origins = alike ? std::vector{rows.front()} : rows;
    }
  }

  void add_forward() {
    for (const std::string& name : f_.forward) {
      const Seen& value = f_.values.at(name);
      ExampleSection& s =
          add(ExamplePart::forward, name, value, words_of(f_, name), std::string(info(value.site.site).meaning));
      label_site(s, value.site);
      if (value.site.site == Site::loss) s.meaning += "; the loss of the step is the last one";
      if (value.site.site != Site::logits) continue;
      ExampleSection& p = add(ExamplePart::forward, "softmax", f_.values.at("softmax"),
                              {"p_{t,v} = {exp(l_{t,v})}/{Σ_{u} exp(l_{t,u})}", "src/ops/loss.cpp"},
                              "the probability of each token after each position");
      p.rows = tokens_;
      p.columns = labels_;
    }
  }

  void add_param_gradient(const std::string& name) {
    const auto found = f_.param_gradients.find(name);
    if (found == f_.param_gradients.end() || !added_.insert(name).second) return;
    const bool is_tied = name == "embed.weight" && f_.config->head.tied;
    if (is_tied) {
      label_param(add(ExamplePart::backward, "input:" + name, f_.input_side,
                      {"dE_{v} = " + std::string(embed_op.weight.formula), std::string(embed_op.file)},
                      "the part from the rows that the text read, summed over positions of the same token"),
                  name);
      label_param(add(ExamplePart::backward, "head:" + name, f_.head_side,
                      {"dE_{v} = Σ_{t} dz_{t,v} · h_{t}", "src/ops/linear.cpp"}, "the part from the logits"),
                  name);
    }
    ExampleSection& s = add(ExamplePart::backward, "grad:" + name, found->second, param_gradient_words_of(f_, name),
                            meaning_of_param(name) + (is_tied ? "; the sum of both parts" : ""));
    label_param(s, name);
    s.differences = slopes_.at(name);
    const bool any =
        std::any_of(s.differences.begin(), s.differences.end(), [](const Difference& d) { return d.taken; });
    if (!any) s.differences.clear();
  }

  /// The parameters whose gradients follow from the gradient at a site.
  void add_params_after(const SiteId& id) {
    const std::string site = name_of(id);
    for (const TrainParam& p : model_.trainable.params()) {
      if (p.name != "embed.weight" && site_made_with(p.name) == site) add_param_gradient(p.name);
    }
  }

  void add_backward() {
    for (const std::string& name : f_.backward) {
      const Seen& gradient = f_.gradients.at(name);
      const char* const meaning = name == "hook_embed" ? "the gradient of each position's embedding" : "";
      label_site(add(ExamplePart::backward, "grad:" + name, gradient, gradient_words_of(f_, name), meaning),
                 gradient.site);
      add_params_after(gradient.site);
    }
    for (const TrainParam& p : model_.trainable.params()) {
      if (p.name != "embed.weight") add_param_gradient(p.name);
    }
    add_param_gradient("embed.weight");
  }

  void add_update() {
    for (const TrainParam& p : model_.trainable.params()) {
      const auto found = f_.new_params.find(p.name);
      if (found == f_.new_params.end()) continue;
      const bool is_sgd = f_.optimizer.kind == OptimizerConfig::Kind::sgd;
      const char* const formula = is_sgd       ? "w ← w − \"rate\" · dw"
                                  : p.decays() ? "w ← w · (1 − \"rate\" · \"decay\") − \"rate\" · {m}/{√(v) + ε}"
                                               : "w ← w − \"rate\" · {m}/{√(v) + ε}";
      label_param(add(ExamplePart::update, "new:" + p.name, found->second, {formula, "src/train/optimizer.cpp"},
                      meaning_of_param(p.name)),
                  p.name);
    }
  }

  void add_prediction() {
    const std::int64_t n = f_.config->vocab_size;
    Seen both{{}, {4, n}, {}};
    for (const Seen* x :
         {&f_.values.at("hook_logits"), &f_.values.at("softmax"), &f_.logits_after, &f_.softmax_after}) {
      for (std::int64_t v = 0; v < n; ++v) both.values.push_back(last_of(*x, v));
    }
    ExampleSection& s = add(ExamplePart::prediction, "prediction", both, {"", "src/model/model.cpp"},
                            "logits and probabilities of the next token before and after the update");
    s.rows = {"logits before", "probability before", "logits after", "probability after"};
    s.columns = labels_;
  }

  const ExampleModel& model_;
  const Facts& f_;
  const Slopes& slopes_;
  std::vector<std::string> labels_, tokens_;
  std::set<std::string> added_;  // gradients of parameters
  WorkedExample example_;
};

std::string words_of(const ExampleOptions& o) {
  if (o.optimizer.kind == OptimizerConfig::Kind::sgd) return fmt::format("SGD, rate {}", o.lr);
  return fmt::format("AdamW, rate {}, β1 {}, β2 {}, decay {}, its first step", o.lr, o.optimizer.beta1,
                     o.optimizer.beta2, o.optimizer.weight_decay);
}

}  // namespace

WorkedExample work_example(const ExampleModel& model, const ExampleOptions& options) {
  Slopes slopes;
  const Facts facts = take_step(model, options, slopes);
  WorkedExample example = Gatherer(model, facts, slopes).gather();
  example.optimizer = words_of(options);
  add_cells(facts, options.cells, example);
  return example;
}

std::string_view name_of(ExamplePart part) {
  static constexpr std::string_view kNames[] = {"The model", "Forward", "Backward", "The update", "The new prediction"};
  return kNames[static_cast<std::size_t>(part)];
}

}  // namespace vitrine
