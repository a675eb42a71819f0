#include "look/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "checkpoint/param_rows.h"
#include "look/figures.h"
#include "spell/formula.h"
#include "spell/words.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxSteps = 1000;  // of a trail

/// Puts the parameters of an op into the facts, as floats, in place of those of other ops: vectors as a whole, of
/// matrices the rows that an element is computed from.
class Params {
 public:
  Params(const Model& model, ForwardFacts& facts) : f_(facts) {
    for_each_param(model.config(), model.params(),
                   [&](const Param& param, const std::string& name, const Shape& shape) {
                     if (param.present()) of_stem_[stem_of(name)].push_back({&param, name, shape});
                   });
  }

  /// Whether the op has its parameters.
  bool select(const StepOp& op) {
    if (op.param.empty() || f_.params.contains(op.param)) return true;
    f_.params.clear();
    for (const auto& [param, name, shape] : of_stem_[stem_of(op.param)]) {
      Seen& seen = f_.params[name];
      seen.shape = shape;
      if (shape.rank() < 2) read(*param, 0, shape.count(), seen);
    }
    return f_.params.contains(op.param);
  }

  void load(const OperandElements& elements) {
    Seen& seen = f_.params.at(elements.param);
    if (seen.shape.rank() < 2) return;
    const std::int64_t width = seen.shape.count() / seen.shape[0], row = elements.first / width;
    if (!seen.values.empty() && seen.first == row * width) return;
    for (const Stored& stored : of_stem_[stem_of(elements.param)]) {
      if (stored.name == elements.param) read(*stored.param, row, width, seen);
    }
  }

 private:
  struct Stored {
    const Param* param;
    std::string name;
    Shape shape;
  };

  static std::string stem_of(const std::string& name) { return name.substr(0, name.rfind('.')); }
  static void read(const Param& param, std::int64_t row, std::int64_t width, Seen& seen) {
    seen.first = row * width;
    seen.values.resize(static_cast<std::size_t>(width));
    read_row(param.view, row, seen.values);
  }

  ForwardFacts& f_;
  std::map<std::string, std::vector<Stored>> of_stem_;
};

class Speller {
 public:
  Speller(const GenerateContext& context, Recording& r) : r_(r), f_(r.facts), params_(*context.model, r.facts) {}

  const Operand& operand(const CellName& cell) const { return f_.operand_at(cell.site); }
  /// The op that made the value at the cell's site; null for a copy of another value.
  const StepOp* op_of(const CellName& cell) const {
    const Operand& o = operand(cell);
    return o.produced_by ? &f_.ops[*o.produced_by] : nullptr;
  }
  float value(const CellName& cell) const { return operand(cell).value[cell.flat]; }

  std::vector<OperandElements> elements_of(const StepOp& op, std::int64_t flat) {
    if (!params_.select(op)) return {};
    const auto elements = description_of(op.call.kind).forward.elements;
    if (elements == nullptr) return {};
    std::vector<OperandElements> all = elements({f_, op}, flat);
    for (const OperandElements& e : all) {
      if (!e.input) params_.load(e);
    }
    return all;
  }

  /// The operand that contributes most, as long as it is a value at a site.
  std::optional<CellName> parent(const CellName& cell) {
    const StepOp* op = op_of(cell);
    std::int64_t flat = cell.flat;
    for (std::size_t step = 0; op != nullptr && step < kMaxSteps; ++step) {
      const std::vector<OperandElements> all = elements_of(*op, flat);
      if (all.empty() || !all.front().input) return std::nullopt;
      const auto [input, at] = largest(*op, all);
      const Operand& from = f_.operands[op->inputs[input]];
      if (!from.name.empty()) return CellName{from.name, at};
      op = from.produced_by ? &f_.ops[*from.produced_by] : nullptr;
      flat = at;
    }
    return std::nullopt;
  }

  /// MathML, each formula once.
  const Json& formulas() const { return formulas_; }

  Json spell(const CellName& cell, LookData& data) {
    const std::string name = name_of_element(cell.site, r_.shape(cell.site), cell.flat);
    Json json = {{"name", name}, {"site", cell.site}, {"value", value(cell)}};
    const StepOp* const op = op_of(cell);
    if (op == nullptr) return json;
    const std::vector<OperandElements> all = elements_of(*op, cell.flat);
    const Operand& made = operand(cell);
    add_words(made.name, json);
    if (const Cell arithmetic = spell_forward(f_, made.name, cell.flat)) {
      json["result"] = arithmetic->value();
      if (arithmetic->text().size() <= kMaxText) json["text"] = arithmetic->text();
    }
    std::vector<float> values;
    Json groups = Json::array(), parents = Json::array();
    for (const OperandElements& e : all) {
      const Shape shape = e.input ? shape_of(f_.operands[op->inputs[*e.input]]) : f_.params.at(e.param).shape;
      const std::string of = e.input ? f_.operands[op->inputs[*e.input]].name : e.param;
      groups.push_back({{"of", of.empty() ? "x" : of},
                        {"first", e.first},
                        {"step", e.step},
                        {"n", e.n},
                        {"shape", std::vector<std::int64_t>(shape.sizes().begin(), shape.sizes().end())}});
      const Seen& from = OpView{f_, *op}.values_of(e);
      for (std::int64_t i = 0; i < e.n; ++i) values.push_back(from[e.first + i * e.step]);
    }
    json["op"] = name_of(op->call.kind);
    json["groups"] = std::move(groups);
    if (const std::optional<CellName> p = parent(cell)) {
      parents.push_back(name_of_element(p->site, r_.shape(p->site), p->flat));
    }
    json["parents"] = std::move(parents);
    data.add(kCellsBlock, "cell:" + name, values);
    return json;
  }

 private:
  /// The formula and the file, which all elements of a value share.
  void add_words(const std::string& name, Json& json) {
    auto known = words_.find(name);
    if (known == words_.end()) {
      const SectionWords words = words_of(f_, name);
      Json own = {{"file", words.file}};
      if (!words.formula.empty()) {
        const auto [at, is_new] = numbers_.emplace(words.formula, formulas_.size());
        if (is_new) formulas_.push_back(formula_mathml(words.formula));
        own["formula"] = at->second;
      }
      known = words_.emplace(name, std::move(own)).first;
    }
    json.update(known->second);
  }

  static Shape shape_of(const Operand& o) {
    return o.site_shape.count() == o.value.count() ? o.site_shape : o.value.shape;
  }

  std::pair<std::size_t, std::int64_t> largest(const StepOp& op, const std::vector<OperandElements>& all) const {
    using Trail = OpDescription::Trail;
    const OpView v{f_, op};
    const Trail trail = description_of(op.call.kind).forward.trail;
    const OperandElements& first = all.front();
    const Seen& values = v.values_of(first);
    if (trail == Trail::larger && std::abs(v.values_of(all[1])[all[1].first]) > std::abs(values[first.first])) {
      return {*all[1].input, all[1].first};
    }
    const bool is_product = all.size() > 1 && all[1].n == first.n && first.n > 1;
    const Seen* const factors = is_product ? &v.values_of(all[1]) : nullptr;
    std::int64_t best = 0;
    float size = -1;
    for (std::int64_t i = 0; i < first.n; ++i) {
      const float factor = is_product ? (*factors)[all[1].first + i * all[1].step] : 1.0f;
      const float x = std::abs(values[first.first + i * first.step] * factor);
      if (std::isfinite(x) && x > size) {
        size = x;
        best = i;
      }
    }
    const OperandElements& from = trail == Trail::second ? all[1] : first;
    return {*from.input, from.first + best * from.step};
  }

  Recording& r_;
  ForwardFacts& f_;
  Params params_;
  std::map<std::string, Json> words_;           // by name of the value
  std::map<std::string, std::size_t> numbers_;  // of the formulas
  Json formulas_ = Json::array();
};

}  // namespace

std::vector<CellName> trail_of(const GenerateContext& context, Recording& r) {
  Speller speller(context, r);
  const std::int64_t vocab_size = r.facts.config->vocab_size;
  std::vector<CellName> trail = {
      {"hook_logits", r.position * vocab_size + r.top[static_cast<std::size_t>(r.position)].front().id}};
  while (trail.size() < kMaxSteps) {
    const std::optional<CellName> next = speller.parent(trail.back());
    if (!next) break;
    trail.push_back(*next);
  }
  return trail;
}

std::vector<CellName> largest_cells(const Recording& r) {
  std::vector<CellName> cells;
  for (const std::string& site : r.facts.forward) {
    const Shape& shape = r.shape(site);
    const std::int64_t n = r.n_tokens();
    const bool maps = is_map(site);
    if (shape.rank() == 0 || (shape[0] != n && !maps)) continue;
    const Seen& value = r.value(site);
    const std::int64_t width = value.count() / n, first = maps ? r.position * n : r.position * width;
    std::vector<std::int64_t> order(static_cast<std::size_t>(maps ? n : width));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = first + static_cast<std::int64_t>(i);
    std::erase_if(order, [&](std::int64_t i) { return !std::isfinite(value[i]); });
    const std::size_t kept = std::min(kLargestCells, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [&](std::int64_t a, std::int64_t b) {
                        const float x = std::abs(value[a]), y = std::abs(value[b]);
                        return x != y ? x > y : a < b;
                      });
    for (std::size_t i = 0; i < kept; ++i) cells.push_back({site, order[i]});
  }
  return cells;
}

CellName cell_named(const SiteShapes& shapes, const std::string& name) {
  const std::size_t open = name.find('[');
  if (open == name.npos || !name.ends_with(']')) {
    throw BadInput("--cell", "expected SITE[index], such as hook_embed[0,3], got \"{}\"", name);
  }
  const std::string site = name.substr(0, open), list = name.substr(open + 1, name.size() - open - 2);
  const auto found = shapes.find(site);
  if (found == shapes.end()) {
    std::vector<std::string> sites;
    for (const auto& [known, shape] : shapes) sites.push_back(known);
    throw BadInput("--cell", "the model has no site {}{}", site, did_you_mean(site, sites));
  }
  const Shape& shape = found->second;
  CellName cell{site, 0};
  int axis = 0;
  for (std::size_t from = 0; from <= list.size(); ++axis) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    const auto i = number_in<std::int64_t>(std::string_view(list).substr(from, comma - from));
    if (axis >= shape.rank() || !i || *i < 0 || *i >= shape[axis]) {
      throw BadInput("--cell", "expected an index within {}, got {}", to_string(shape), name);
    }
    cell.flat = cell.flat * shape[axis] + *i;
    from = comma + 1;
  }
  if (axis != shape.rank())
    throw BadInput("--cell", "expected {} numbers, as {} has shape {}, got {}", shape.rank(), site, to_string(shape),
                   name);
  return cell;
}

Json spell_cells(const GenerateContext& context, Recording& r, const std::vector<CellName>& cells, LookData& data) {
  Speller speller(context, r);
  // In the order of ops, so that each parameter is converted once.
  std::vector<const CellName*> order;
  std::set<std::pair<std::string, std::int64_t>> seen;
  for (const CellName& cell : cells) {
    if (seen.emplace(cell.site, cell.flat).second) order.push_back(&cell);
  }
  const auto produced_by = [&](const CellName* cell) { return speller.operand(*cell).produced_by.value_or(0); };
  std::stable_sort(order.begin(), order.end(),
                   [&](const CellName* a, const CellName* b) { return produced_by(a) < produced_by(b); });
  Json list = Json::array();
  for (const CellName* cell : order) list.push_back(speller.spell(*cell, data));
  Json spelled;
  spelled["cells"] = std::move(list);
  spelled["formulas"] = speller.formulas();
  return spelled;
}

}  // namespace vitrine
