#include "look/look.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "look/cells.h"
#include "look/figures.h"

namespace vitrine {
namespace {

constexpr std::size_t kNamedCandidates = 100;  // of the funnel

bool is_map(const std::string& site) {
  return site.ends_with(".hook_scores_raw") || site.ends_with(".hook_attn_scores") || site.ends_with(".hook_pattern");
}

LookData::Sizes sizes_of(const Shape& shape, int first) { return {shape.sizes().begin() + first, shape.sizes().end()}; }

/// Every value at the followed position: `SITE[P]`, of a map `SITE[:,P]`; or all of it, if the plan includes that.
void add_sites(const Recording& r, bool in_full, LookData& data) {
  const std::string p = std::to_string(r.position);
  const std::int64_t n = r.n_tokens();
  for (const std::string& site : r.facts.forward) {
    const Shape& shape = r.shape(site);
    const std::vector<float>& values = r.value(site).values;
    const bool is_big = site == "hook_logits" || site == "unembed.hook_out";
    if (is_map(site)) {
      const bool is_pattern = site.ends_with("pattern");
      if (in_full && !is_pattern) data.add("maps of scores", site, sizes_of(shape, 0), values);
      std::vector<float> row;
      for (std::int64_t h = 0; h < shape[0]; ++h) {
        const auto begin = values.begin() + (h * n + r.position) * shape[2];
        row.insert(row.end(), begin, begin + shape[2]);
      }
      data.add("rows", site + "[:," + p + "]", {shape[0], shape[2]}, row);
    } else if (shape.rank() > 0 && shape[0] == n) {
      if (in_full && !is_big) data.add("sites", site, sizes_of(shape, 0), values);
      data.add("rows", site + "[" + p + "]", sizes_of(shape, 1), r.row(site, r.position));
    }
  }
}

void add_maps(const Recording& r, bool exact, LookData& maps) {
  for (const std::string& site : r.facts.forward) {
    if (!site.ends_with(".hook_pattern")) continue;
    const LookData::Sizes shape = sizes_of(r.shape(site), 0);
    const std::string block = "map of " + site.substr(0, site.find(".attn"));
    exact ? maps.add(block, site, shape, r.value(site).values)
          : maps.add_picture(block, site, shape, r.value(site).values);
  }
}

/// The bytes of every token that a figure names, as text; bytes that are no UTF-8 become `\xE2`.
Json pieces_of(const LookSubject& subject, const Recording& r, std::span<const std::int32_t> ids) {
  std::set<std::int32_t> named(ids.begin(), ids.end());
  for (const auto& top : r.top) {
    for (const TokenLogprob& t : top) named.insert(t.id);
  }
  Json pieces = Json::object();
  for (const std::int32_t id : named) pieces[std::to_string(id)] = subject.bytes_of(id);
  return pieces;
}

/// What the figures need to know about a layer.
Json layer_json(const BlockConfig& block) {
  if (!block.has_attention()) return {{"mixer", "other"}};
  const AttentionConfig& a = block.attention();
  const auto* const dense = std::get_if<DenseConfig>(&block.ffn);
  return {{"mixer", "attention"},
          {"heads", a.n_heads},
          {"kv_heads", a.n_kv_heads},
          {"head_dim", a.head_dim},
          {"window", a.window ? Json(*a.window) : Json()},
          {"softcap", a.softcap ? Json(*a.softcap) : Json()},
          {"rope", a.rope.has_value()},
          {"parallel", block.residual == BlockConfig::Residual::parallel},
          {"gated", dense != nullptr && dense->gated},
          {"dense", dense != nullptr}};
}

void add_named(const LookSubject& subject, const LookData& data, Json& pieces) {
  for (const Json& array : data.arrays()) {
    const std::string name = array["name"];
    if (!name.ends_with(".id") || array["type"] != "i32") continue;
    const auto block = std::find_if(data.blocks().begin(), data.blocks().end(),
                                    [&](const LookBlock& b) { return b.name == array["block"]; });
    std::size_t n = 1;
    for (const Json& size : array["shape"]) n *= size.get<std::size_t>();
    if (name == "funnel.id") n = std::min(n, kNamedCandidates);
    for (std::size_t i = 0; i < n; ++i) {
      std::int32_t id = 0;
      std::copy_n(block->bytes.data() + array["offset"].get<std::size_t>() + 4 * i, 4, reinterpret_cast<char*>(&id));
      pieces[std::to_string(id)] = subject.bytes_of(id);
    }
  }
}

Json plan_json(const LookPlan& plan, bool included) {
  Json list = Json::array();
  for (const LookPart& part : plan.parts) {
    const bool is_left_out = !part.included || !part.exact;
    if (included ? part.included : is_left_out) {
      list.push_back({{"what", part.what}, {"bytes", part.bytes}, {"exact", part.exact}, {"option", part.option}});
    }
  }
  return list;
}

}  // namespace

void check_look(const LookSubject& subject, const LookOptions& options) {
  const ModelConfig& config = subject.context.model->config();
  if (config.encoder || is_bidirectional(config) || !config.has_head) {
    throw Unsupported("look", "expected a model that predicts the next token");
  }
  const auto n = static_cast<std::int64_t>(options.ids.size());
  if (n > config.max_seq_len) {
    throw BadInput("look", "the text has {} tokens, the model's context is {}", n, config.max_seq_len);
  }
  subject.context.check_ids(options.ids);
  subject.context.check_ids(options.corrupted);
  if (!options.corrupted.empty() && options.corrupted.size() != options.ids.size()) {
    throw BadInput("--corrupted", "expected a text of {} tokens, as long as TEXT, got {}", n, options.corrupted.size());
  }
  if (options.position && (*options.position < 0 || *options.position >= n)) {
    throw BadInput("--position", "expected a position from 0 to {}, got {}", n - 1, *options.position);
  }
}

Look look_at(const LookSubject& subject, const LookOptions& o, const LookPlan& plan) {
  check_look(subject, o);
  const auto n = static_cast<std::int64_t>(o.ids.size());
  Recording r = record(subject.context, o.ids, o.position.value_or(n - 1), kLookTop);
  Look look;
  add_text_values(r, look.data);
  add_stream_values(subject.context, r, look.data);
  add_embedding_values(subject.context, r, o.words.empty() ? o.ids : o.words, look.data);
  add_rope_values(r, look.data);
  add_mlp_values(subject.context, r, look.data);
  add_funnel_values(r, o.sampling, o.seed, look.data);
  add_cost_values(subject.context, r, subject.bytes_per_weight, look.data);
  add_sites(r, plan.part(LookPart::Kind::sites).included, look.data);
  add_lens_values(subject.context, r, look.data);
  add_head_values(subject.context, r, look.data);
  try {
    add_attribution_values(subject.context, r, look.data);
  } catch (const Unsupported&) {
    // A head that is not linear: the page says that the figure does not apply.
  }
  if (!o.corrupted.empty()) add_patch_values(subject.context, r, o.corrupted, look.data);
  std::vector<CellName> trail, cells;
  if (plan.part(LookPart::Kind::trail).included) trail = trail_of(subject.context, r);
  if (plan.part(LookPart::Kind::cells).included) cells = largest_cells(r);
  cells.insert(cells.end(), trail.begin(), trail.end());
  const Json spelled = spell_cells(subject.context, r, cells, look.data);
  add_maps(r, plan.part(LookPart::Kind::maps).exact, look.maps);

  Json layers = Json::array();
  for (const BlockConfig& block : r.facts.config->blocks) layers.push_back(layer_json(block));
  Json pieces = pieces_of(subject, r, o.ids);
  add_named(subject, look.data, pieces);
  look.about = subject.about;
  look.about.update({{"ids", o.ids},
                     {"position", r.position},
                     {"pieces", pieces},
                     {"layers", layers},
                     {"vocab_size", r.facts.config->vocab_size},
                     {"d_model", r.facts.config->d_model},
                     {"max_seq_len", r.facts.config->max_seq_len},
                     {"cells", spelled},
                     {"seed", o.seed},
                     {"sampling",
                      {{"temperature", o.sampling.temperature},
                       {"top_k", o.sampling.top_k},
                       {"top_p", o.sampling.top_p},
                       {"min_p", o.sampling.min_p},
                       {"repeat_penalty", o.sampling.repeat_penalty}}},
                     {"contains", plan_json(plan, true)},
                     {"left_out", plan_json(plan, false)}});
  return look;
}

}  // namespace vitrine
