// Makes a WorkedExample of one step: the sections in the order of computation, with labels and cells.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "example/facts.h"
#include "example/spell.h"
#include "example/words.h"

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

  ExampleSection& add(ExamplePart part, const std::string& name, const Seen& value) {
    ExampleSection section;
    section.part = part;
    section.name = name;
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
    const std::size_t at = name.find(".attn.w");
    if (at == std::string::npos) return;
    const AttentionConfig& a = f_.config->blocks.front().attention();
    const char which = name[at + 7];
    if (which == 'o')
      s.columns = head_elements(shape[1] / a.head_dim, a.head_dim);
    else if (shape[0] % a.head_dim == 0)
      s.rows = head_elements(shape[0] / a.head_dim, a.head_dim);
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
      ExampleSection& s = add(ExamplePart::model, p.name, f_.params.at(p.name));
      s.meaning = meaning_of_param(p.name);
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
      ExampleSection& s = add(ExamplePart::forward, name, value);
      const SectionWords words = words_of(*f_.config, value.site);
      s.meaning = info(value.site.site).meaning;
      s.formula = words.formula;
      s.file = words.file;
      label_site(s, value.site);
      if (value.site.site == Site::z) s.meaning += "; the output projection reads them concatenated";
      if (value.site.site == Site::loss) s.meaning += "; the loss of the step is the last one";
      if (value.site.site != Site::logits) continue;
      ExampleSection& p = add(ExamplePart::forward, "softmax", f_.values.at("softmax"));
      p.meaning = "the probability of each token after each position";
      p.formula = "p_{t,v} = {exp(l_{t,v})}/{Σ_{u} exp(l_{t,u})}";
      p.file = "src/ops/loss.cpp";
      p.rows = tokens_;
      p.columns = labels_;
    }
  }

  void add_param_gradient(const std::string& name) {
    const auto found = f_.param_gradients.find(name);
    if (found == f_.param_gradients.end() || !added_.insert(name).second) return;
    if (name == "embed.weight" && f_.config->head.tied) {
      add_end("input:" + name, f_.input_side.at(name),
              "the part from the rows that the text read, summed over positions of the same token",
              "dE_{v} = Σ_{\"t with\" id(t) = v} dx_{t}", "src/ops/embed.cpp");
      add_end("head:" + name, f_.head_side.at(name), "the part from the logits", "dE_{v} = Σ_{t} dz_{t,v} · h_{t}",
              "src/ops/linear.cpp");
    }
    ExampleSection& s = add(ExamplePart::backward, "grad:" + name, found->second);
    const SectionWords words = gradient_words_of(*f_.config, std::string_view(name));
    s.meaning = meaning_of_param(name);
    if (name == "embed.weight" && f_.config->head.tied) s.meaning += "; the sum of both parts";
    s.formula = words.formula;
    s.file = words.file;
    label_param(s, name);
    s.differences = slopes_.at(name);
    const bool any =
        std::any_of(s.differences.begin(), s.differences.end(), [](const Difference& d) { return d.taken; });
    if (!any) s.differences.clear();
  }

  void add_end(const std::string& name, const Seen& value, const char* meaning, const char* formula, const char* file) {
    ExampleSection& s = add(ExamplePart::backward, name, value);
    s.meaning = meaning;
    s.formula = formula;
    s.file = file;
    label_param(s, "embed.weight");
  }

  /// The parameters whose gradients follow from the gradient at a site.
  void add_params_after(const SiteId& id) {
    const std::string site = name_of(id);
    for (const TrainParam& p : model_.trainable.params()) {
      if (p.name != "embed.weight" && site_of_gradient(p.name) == site) add_param_gradient(p.name);
    }
  }

  std::string site_of_gradient(const std::string& param) const {
    const std::string linear = param.substr(0, param.rfind('.'));
    const std::string above = linear.substr(0, linear.rfind('.') + 1), own = linear.substr(above.size());
    if (own == "unembed") return "unembed.hook_out";
    if (own == "pos_embed") return "hook_pos_embed";
    if (own.starts_with("ln") || own.ends_with("_norm")) return linear + ".hook_out";
    if (own == "wq" || own == "wk" || own == "wv") return above + "hook_" + own.substr(1);
    if (own == "wo" || own == "w_down") {
      return param.find(".shared.") != std::string::npos ? "" : above + "hook_out";
    }
    if (own == "router") return above + "hook_router_logits";
    const auto* moe = std::get_if<MoeConfig>(&f_.config->blocks.front().ffn);
    if (moe != nullptr) return above + (own == "w_gate" ? "hook_gate" : "hook_pre");
    const bool gated = std::get<DenseConfig>(f_.config->blocks.front().ffn).gated;
    return above + (own == "w_up" && gated ? "hook_pre_linear" : "hook_pre");
  }

  void add_backward() {
    for (const std::string& name : f_.backward) {
      const Seen& gradient = f_.gradients.at(name);
      ExampleSection& s = add(ExamplePart::backward, "grad:" + name, gradient);
      const SectionWords words = gradient_words_of(*f_.config, gradient.site);
      s.formula = words.formula;
      s.file = words.file;
      label_site(s, gradient.site);
      if (name == "hook_embed") s.meaning = "the gradient of each position's embedding";
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
      ExampleSection& s = add(ExamplePart::update, "new:" + p.name, found->second);
      const bool is_sgd = f_.optimizer.kind == OptimizerConfig::Kind::sgd;
      s.meaning = meaning_of_param(p.name);
      s.formula = is_sgd       ? "w ← w − \"rate\" · dw"
                  : p.decays() ? "w ← w · (1 − \"rate\" · \"decay\") − \"rate\" · {m}/{√(v) + ε}"
                               : "w ← w − \"rate\" · {m}/{√(v) + ε}";
      s.file = "src/train/optimizer.cpp";
      label_param(s, p.name);
    }
  }

  void add_prediction() {
    const std::int64_t n = f_.config->vocab_size;
    Seen both{{}, {4, n}, {}};
    for (const Seen* x :
         {&f_.values.at("hook_logits"), &f_.values.at("softmax"), &f_.logits_after, &f_.softmax_after}) {
      for (std::int64_t v = 0; v < n; ++v) both.values.push_back(last_of(*x, v));
    }
    ExampleSection& s = add(ExamplePart::prediction, "prediction", both);
    s.meaning = "logits and probabilities of the next token before and after the update";
    s.file = "src/model/model.cpp";
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

std::string cell_name(const ExampleSection& s, std::int64_t flat) {
  std::string index;
  for (int i = s.shape.rank() - 1; i >= 0; --i) {
    index = std::to_string(flat % s.shape[i]) + (index.empty() ? "" : ",") + index;
    flat /= s.shape[i];
  }
  return s.name + "[" + index + "]";
}

/// The largest element of a parameter, or of the last position's row of a site.
std::int64_t own_choice(const ExampleSection& s) {
  const auto n = static_cast<std::int64_t>(s.values.size());
  std::int64_t first = 0, count = n;
  const bool of_param = s.name.find("hook_") == std::string::npos && s.name != "softmax";
  if (!of_param) {
    const std::int64_t rows = s.by_first ? s.shape[1] : s.shape[0];
    count = s.by_first ? s.shape[2] : n / rows;
    first = (rows - 1) * count;  // of the first table
  }
  std::int64_t best = first;
  const auto size = [&](std::int64_t i) { return std::abs(s.values[static_cast<std::size_t>(i)]); };
  for (std::int64_t i = first; i < first + count; ++i) {
    if (std::isfinite(size(i)) && (!std::isfinite(size(best)) || size(i) > size(best))) best = i;
  }
  return best;
}

/// The section and element that `NAME[1,2]` names.
struct CellRequest {
  ExampleSection* section;
  std::int64_t flat;
};

CellRequest find_cell(WorkedExample& example, const std::string& text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string::npos || text.back() != ']') {
    throw BadInput("--cell", "expected SITE[row,column], got \"{}\"", text);
  }
  const std::string name = text.substr(0, bracket);
  std::vector<std::string> names;
  for (const ExampleSection& s : example.sections) names.push_back(s.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw BadInput("--cell", "there is no \"{}\" in this example{}", name, did_you_mean(name, names));
  }
  ExampleSection& section = example.sections[static_cast<std::size_t>(found - names.begin())];
  std::vector<std::int64_t> sizes(section.shape.sizes().begin(), section.shape.sizes().end()), index;
  const char* at = text.data() + bracket + 1;
  for (const char* const end = text.data() + text.size() - 1; at <= end;) {
    std::int64_t i = 0;
    const auto [stop, error] = std::from_chars(at, end, i);
    if (error != std::errc() || (*stop != ',' && stop != end)) {
      throw BadInput("--cell", "expected SITE[row,column] with whole numbers, got \"{}\"", text);
    }
    index.push_back(i);
    at = stop + 1;
  }
  // Heads are columns of one table.
  if (index.size() == 2 && sizes.size() == 3 && !section.by_first) sizes = {sizes[0], sizes[1] * sizes[2]};
  bool inside = index.size() == sizes.size();
  std::int64_t flat = 0;
  for (std::size_t i = 0; inside && i < sizes.size(); ++i) {
    inside = index[i] >= 0 && index[i] < sizes[i];
    flat = flat * sizes[i] + index[i];
  }
  if (!inside) throw BadInput("--cell", "{}: {} has shape {}", text, name, to_string(section.shape));
  return {&section, flat};
}

void spell_out(const Facts& facts, ExampleSection& s, std::int64_t flat) {
  const std::optional<Arithmetic> arithmetic = spell(facts, s.name, flat);
  if (!arithmetic) return;
  s.cells.push_back(
      {cell_name(s, flat), arithmetic->text(), arithmetic->value(), s.values[static_cast<std::size_t>(flat)]});
}

void add_cells(const Facts& facts, const std::vector<std::string>& asked, WorkedExample& example) {
  std::set<const ExampleSection*> chosen;
  for (const std::string& text : asked) {
    const CellRequest request = find_cell(example, text);
    chosen.insert(request.section);
    const std::size_t before = request.section->cells.size();
    spell_out(facts, *request.section, request.flat);
    if (request.section->cells.size() == before) {
      throw BadInput("--cell", "{} has no arithmetic to show", text);
    }
  }
  for (ExampleSection& s : example.sections) {
    if (s.part != ExamplePart::model && s.part != ExamplePart::prediction && !chosen.contains(&s) &&
        !s.values.empty()) {
      spell_out(facts, s, own_choice(s));
    }
  }
}

DifferenceSummary summary_of(const WorkedExample& example) {
  DifferenceSummary summary;
  for (const ExampleSection& s : example.sections) {
    for (std::size_t i = 0; i < s.differences.size(); ++i) {
      const Difference& d = s.differences[i];
      if (!d.taken) continue;
      ++summary.taken;
      if (!d.smooth) {
        ++summary.not_smooth;
        continue;
      }
      const double by = std::abs(static_cast<double>(s.values[i]) - d.slope);
      if (by < summary.largest) continue;
      summary.largest = by;
      summary.where = cell_name(s, static_cast<std::int64_t>(i));
      summary.expected = d.error;
    }
  }
  return summary;
}

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
  example.differences = summary_of(example);
  return example;
}

std::string_view name_of(ExamplePart part) {
  switch (part) {
    case ExamplePart::model:
      return "The model";
    case ExamplePart::forward:
      return "Forward";
    case ExamplePart::backward:
      return "Backward";
    case ExamplePart::update:
      return "The update";
    case ExamplePart::prediction:
      break;
  }
  return "The new prediction";
}

}  // namespace vitrine
