#include "checkpoint/adapters/places.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/gguf/file_rows.h"
#include "checkpoint/names.h"
#include "model/count.h"

namespace vitrine {
namespace {

/// The table of a format, and what it does to q and k.
struct Form {
  std::vector<TensorRule> rules;
  std::vector<std::string_view> prefixes;
  std::optional<RopeConfig::Layout> layout;  ///< Absent: as in the base.
  std::size_t ending = 0;                    ///< Characters of the stored name that are not part of the module's.
  bool is_peft = false;
  std::vector<TensorRule> in_memory{};  ///< Where transformers has experts and routers, if not where files have them.
  bool has_swapped_experts = false;
  const GgufArchitecture* architecture = nullptr;  ///< Of GGUF.
};

/// The rules of what transformers has in memory instead of the tensors of the file.
std::vector<TensorRule> rules_in_memory(const ExpertParameters& experts) {
  std::vector<TensorRule> rules;
  if (!experts.router.empty()) rules.push_back({experts.router, {"blocks.{l}.mlp.router"}});
  if (experts.gate_up.empty()) return rules;
  TensorRule both{experts.gate_up,
                  {"blocks.{l}.mlp.experts.{e}.w_gate.weight", "blocks.{l}.mlp.experts.{e}.w_up.weight"},
                  false,
                  experts.rows};
  TensorRule down{experts.down, {"blocks.{l}.mlp.experts.{e}.w_down.weight"}};
  both.has_ending = down.has_ending = false;
  rules.insert(rules.end(), {both, down});
  return rules;
}

Form form_of(const Checkpoint& base, AdapterFormat format) {
  if (format == AdapterFormat::peft) {
    if (base.has_folded_factors) {
      throw Unsupported("adapter",
                        "the GGUF file of the model has its multipliers in the weights, of which PEFT's "
                        "adapters know nothing: give an adapter as GGUF, or the model's folder");
    }
    const Family& family = family_named(base.family);
    std::vector<std::string_view> prefixes = family.prefixes;
    if (prefixes.front() == "model.") {
      // The modules of a wrapper, as transformers names them now and earlier. Adapters with these names are read for
      // the text half alone, too; one that is written has the names of its base.
      prefixes.insert(prefixes.begin() + 1, {"model.language_model.", "language_model.model."});
      if (!base.wrapper.empty()) std::swap(prefixes[0], prefixes[1]);
    }
    const std::size_t ending = std::string_view(".weight").size();
    const ExpertParameters& experts = family.experts;
    return {family.tensors,       prefixes, base.published_layout, ending, true, rules_in_memory(experts),
            experts.is_transposed};
  }
  const GgufArchitecture& architecture = gguf_architecture_of(base, "adapter");
  Form form{gguf_tensor_rules(architecture), {""}, architecture.layout};
  form.architecture = &architecture;
  return form;
}

/// The base's row that a file of layout `layout` has as row `row` of q or k.
std::int64_t source_row(const AttentionConfig& a, const std::optional<RopeConfig::Layout>& layout, std::int64_t row) {
  if (!a.rope || !layout || *layout == a.rope->layout || row % a.head_dim >= a.rope->dim) return row;
  const std::int64_t first = row / a.head_dim * a.head_dim, i = row % a.head_dim, half = a.rope->dim / 2;
  const bool file_has_pairs = *layout == RopeConfig::Layout::interleaved;
  return first + (file_has_pairs ? i % 2 * half + i / 2 : i % half * 2 + i / half);
}

/// Lists the places of one form.
class Lister {
 public:
  Lister(const Checkpoint& base, const Form& form) : config_(base.model->config()), form_(form) {
    for_each_shape(config_, [&](const std::string& name, const Shape& shape) {
      if (is_adaptable(name)) shapes_.emplace(name, shape);
    });
    if (config_.has_head && config_.head.tied) {
      shapes_.emplace("unembed.weight", Shape{config_.vocab_size, config_.head_width()});
    }
  }

  void add(const TensorRule& rule, std::string_view prefix) {
    for_each_place(rule, prefix, config_, [&](const TensorPlace& place) {
      if (!place.stacks_experts || !form_.is_peft) add(rule, place);  // no module of PEFT has this form
    });
  }

  /// The modules of files that have q, k and v of a delta net in one tensor and z in another, where the base has all
  /// four of them in one.
  void add_apart(const TensorRule& rule) {
    for_each_place(rule, "", config_, [&](const TensorPlace& stored) {
      const auto it = shapes_.find(stored.ours.front());
      if (it == shapes_.end()) return;
      const BlockConfig& block = config_.blocks[static_cast<std::size_t>(stored.layer)];
      for (const RowsApart& apart : rows_apart(*find<DeltaNetConfig>(block))) {
        AdapterPlace place;
        place.module = with_layer("blk.{l}", stored.layer) + std::string(apart.end);
        place.ours = stored.ours;
        place.layer = stored.layer;
        place.is_part = true;
        place.cols = it->second[1];
        place.rows = {it->second[0]};
        for (const RowRun& run : apart.runs) {
          for (std::int64_t i = 0; i < run.count; ++i) place.order.push_back({0, run.first + i});
        }
        if (names_.insert(place.module).second) places.push_back(std::move(place));
      }
    });
  }

  /// What transformers has in memory.
  void add_in_memory(std::string_view prefix, bool parameters) {
    for (const TensorRule& rule : form_.in_memory) {
      for_each_place(rule, prefix, config_, [&](const TensorPlace& place) {
        if (parameters || !place.stacks_experts) add(rule, place);
      });
    }
  }

  std::vector<AdapterPlace> places;

 private:
  void add(const TensorRule& rule, const TensorPlace& stored) {
    AdapterPlace place;
    place.is_parameter = form_.is_peft && stored.stacks_experts;
    if (!place.is_parameter && stored.stacks_experts && rule.ours.size() > 1) return;  // A and B are of one map
    std::vector<Shape> parts;
    for (const std::string& ours : stored.ours) {
      const auto it = shapes_.find(ours);
      if (it == shapes_.end()) return;
      parts.push_back(it->second);
      place.ours.push_back(ours);
      place.rows.push_back(it->second[0]);
    }
    place.module = stored.stored.substr(0, stored.stored.size() - (place.is_parameter ? 0 : form_.ending));
    if (!names_.insert(place.module).second) return;
    place.layer = rule.stored.find("{l}") != rule.stored.npos ? stored.layer : -1;
    place.transposed = rule.transposed;
    place.stacks_experts = stored.stacks_experts && !place.is_parameter;
    place.cols = parts.front()[1];
    if (place.is_parameter) {
      place.is_swapped = form_.has_swapped_experts;
      place.n_experts = static_cast<std::int64_t>(place.ours.size() / rule.ours.size());
      order_of_expert(rule, place);
      return places.push_back(std::move(place));
    }
    for (const RowRun& run : stored.stacks_experts ? std::vector<RowRun>{} : row_runs(stored, config_, parts)) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        place.order.push_back({run.part, source(place.ours[run.part], stored.layer, run.first + i)});
      }
    }
    if (!place.stacks_experts) change_rows(place);
    places.push_back(std::move(place));
  }

  /// What files of an architecture do to the rows and columns of mixers with a state, and of weights with factors.
  void change_rows(AdapterPlace& place) const {
    const std::string& ours = place.ours.front();
    const std::int64_t n = place.rows.front();
    if (form_.architecture != nullptr) {
      for (const auto& [count, factor] : folded_rows(*form_.architecture, config_, place.layer, ours, n)) {
        place.factors.insert(place.factors.end(), static_cast<std::size_t>(count), factor);
      }
    }
    const auto layer = static_cast<std::size_t>(place.layer);
    const auto* const net =
        place.layer >= 0 && layer < config_.blocks.size() ? find<DeltaNetConfig>(config_.blocks[layer]) : nullptr;
    if (net == nullptr) return;
    const bool file_alternates = form_.architecture != nullptr && form_.architecture->alternates_heads;
    if (file_alternates == net->heads_alternate) return;
    const HeadOrders orders = head_orders(*net, ours, n);
    const auto element = [&](const HeadOrder& order, std::int64_t i) {  // of the base
      return file_alternates ? order.element(i) : order.inverse().element(i);
    };
    for (std::int64_t i = 0; i < n && orders.rows.size > 0; ++i) {
      place.order[static_cast<std::size_t>(i)].row = element(orders.rows, i);
    }
    for (std::int64_t i = 0; i < place.cols && orders.columns.size > 0; ++i) {
      place.columns.push_back(element(orders.columns, i));
    }
  }

  static void order_of_expert(const TensorRule& rule, AdapterPlace& place) {
    const std::size_t n = rule.ours.size();
    for (std::size_t part = 0; part < n; ++part) {
      for (std::int64_t row = 0; row < place.rows[part]; ++row) place.order.push_back({part, row});
    }
    if (rule.rows != Rows::alternating) return;
    for (std::size_t i = 0; i < place.order.size(); ++i) place.order[i] = {i % n, static_cast<std::int64_t>(i / n)};
  }

  std::int64_t source(const std::string& name, std::int64_t layer, std::int64_t row) const {
    const bool is_rotated = name.find(".attn.wq.") != name.npos || name.find(".attn.wk.") != name.npos;
    const AttentionConfig* const attention = attention_of(config_, static_cast<std::size_t>(layer));
    return is_rotated && attention != nullptr ? source_row(*attention, form_.layout, row) : row;
  }

  const ModelConfig& config_;
  const Form& form_;
  std::map<std::string, Shape> shapes_;
  std::set<std::string> names_;
};

}  // namespace

bool is_of_state(std::string_view name) {
  constexpr std::string_view kEndings[] = {".w_in", ".w_out",    ".w_x",      ".w_dt", ".w_qkv", ".w_qkvz",
                                           ".w_ba", ".wq",       ".wk",       ".wv",   ".wo",    ".w_z",
                                           ".w_a",  ".w_z_down", ".w_a_down", ".w_b"};
  const auto is_in = [&](std::string_view slot) { return name.find(slot) != std::string_view::npos; };
  if (!is_in(".mixer.") && !is_in(".linear_attn.") && !is_in(".conv.")) return false;
  constexpr std::string_view kWeight = ".weight";
  return std::any_of(std::begin(kEndings), std::end(kEndings), [&](std::string_view end) {
    return name.ends_with(kWeight) && name.substr(0, name.size() - kWeight.size()).ends_with(end);
  });
}

bool is_adaptable(std::string_view name) {
  constexpr std::string_view kEndings[] = {
      ".wq.weight",          ".wk.weight",     ".wv.weight",     ".wo.weight",          ".w_gate.weight",
      ".w_up.weight",        ".w_down.weight", ".router.weight", ".shared_gate.weight", "head.dense.weight",
      "pooler.dense.weight", ".wq_a.weight",   ".wq_b.weight",   ".wkv_a.weight",       ".wkv_b.weight"};
  if (is_of_state(name)) return true;
  if (name == "unembed.weight" || name == "nsp_head.weight" || name.ends_with("proj.weight")) return true;
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view end) { return name.ends_with(end); }) ||
         (name.starts_with("dense.") && name.ends_with(".weight"));
}

namespace {

/// Whether a rule names q, k, v and z of a delta net in one tensor, which files no longer have.
bool is_joined(const Form& form, const TensorRule& rule) {
  return form.architecture != nullptr && rule.ours.front().ends_with(".w_qkvz");
}

/// Whether a rule names what files have by head instead, as no map.
bool is_by_head(const Form& form, const TensorRule& rule) {
  return form.architecture != nullptr && form.architecture->splits_kv_b && rule.stored.ends_with(".attn_kv_b");
}

}  // namespace

std::vector<AdapterPlace> all_places(const Checkpoint& base, AdapterFormat format) {
  const Form form = form_of(base, format);
  Lister lister(base, form);
  for (const std::string_view prefix : form.prefixes) {
    lister.add_in_memory(prefix, true);
    for (const TensorRule& rule : form.rules) {
      if (is_joined(form, rule)) lister.add_apart(rule);
      lister.add(rule, prefix);
    }
  }
  return std::move(lister.places);
}

std::string module_of_parameter(const AdapterPlace& place) { return place.module.substr(0, place.module.rfind('.')); }

std::vector<AdapterPlace> usual_places(const Checkpoint& base, AdapterFormat format, bool parameters) {
  const Form form = form_of(base, format);
  // A model without a head is the module that others hold under a prefix.
  const ModelConfig& config = base.model->config();
  const std::string_view prefix = config.has_head || config.task ? form.prefixes.front() : "";
  const bool fused = format == AdapterFormat::gguf && gguf_architecture_of(base, "adapter").fused_qkv;
  Lister lister(base, form);
  lister.add_in_memory(prefix, parameters);
  for (const TensorRule& rule : form.rules) {
    const bool is_fused = rule.stored.ends_with(".attn_qkv") && rule.ours.size() > 1;
    const bool is_part =
        rule.stored.ends_with(".attn_q") || rule.stored.ends_with(".attn_k") || rule.stored.ends_with(".attn_v");
    const bool is_one_expert = format == AdapterFormat::gguf && rule.stored.find("{e}") != rule.stored.npos;
    if (rule.is_copy || is_one_expert || is_by_head(form, rule) || (fused ? is_part : is_fused)) continue;
    if (is_joined(form, rule)) {
      lister.add_apart(rule);
    } else {
      lister.add(rule, prefix);
    }
  }
  std::set<std::string> written;  // maps, of which a table may have several names
  std::erase_if(lister.places, [&](const AdapterPlace& place) {
    const bool is_new = written.insert(place.ours.front()).second || place.is_part;
    written.insert(place.ours.begin(), place.ours.end());
    return !is_new;
  });
  const auto is_module = [](const AdapterPlace& place) { return !place.is_parameter; };
  std::stable_partition(lister.places.begin(), lister.places.end(), is_module);
  return std::move(lister.places);
}

}  // namespace vitrine
