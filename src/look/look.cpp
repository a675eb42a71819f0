#include "look/look.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "generate/filters.h"
#include "inspect/text_pass.h"
#include "look/cells.h"
#include "look/figures.h"
#include "model/dry_run.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kNamedCandidates = 100;  // of the funnel

LookData::Sizes sizes_of(const Shape& shape, int first) { return {shape.sizes().begin() + first, shape.sizes().end()}; }

/// Values at the followed position, those that figures need or all of them: `SITE[P]`, of a map `SITE[:,P]`. And all
/// values at all positions, if the plan includes them.
void add_sites(const Recording& r, const LookPlan& plan, LookData& data) {
  const bool in_full = plan.includes(LookPart::Kind::sites), all_rows = plan.includes(LookPart::Kind::rows);
  const std::string p = std::to_string(r.position);
  const std::int64_t n = r.n_tokens();
  for (const std::string& site : r.facts.forward) {
    const Shape& shape = r.shape(site);
    const std::vector<float>& values = r.value(site).values;
    const bool is_big = site == "hook_logits" || site == "unembed.hook_out";
    const bool has_row = all_rows || is_drawn_row(*r.facts.config, site);
    const std::string of = site.starts_with("blocks.") ? " of " + site.substr(0, site.find('.', 7)) : "";
    if (is_map(site)) {
      const bool is_pattern = site.ends_with("pattern");
      if (in_full && !is_pattern) data.add("maps of scores", site, sizes_of(shape, 0), values);
      std::vector<float> row;
      for (std::int64_t h = 0; h < shape[0]; ++h) {
        const auto begin = values.begin() + (h * n + r.position) * shape[2];
        row.insert(row.end(), begin, begin + shape[2]);
      }
      data.add("rows" + of, site + "[:," + p + "]", {shape[0], shape[2]}, row);
    } else if (shape.rank() > 0 && shape[0] == n) {
      if (in_full && !is_big) data.add("sites" + of, site, sizes_of(shape, 0), values);
      if (has_row) data.add("rows" + of, site + "[" + p + "]", sizes_of(shape, 1), r.row(site, r.position));
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

/// The bytes of a token as text; bytes that are no UTF-8 become `\xE2`.
std::string piece_of(const LookSubject& subject, std::int32_t id) {
  const std::string bytes = subject.bytes_of(id);
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t n = valid_prefix(rest);
    text += rest.substr(0, n);
    rest.remove_prefix(n);
    if (rest.empty()) break;
    text += fmt::format("\\x{:02X}", static_cast<unsigned char>(rest.front()));
    rest.remove_prefix(1);
  }
  return text;
}

/// The text of every token that a figure names.
Json pieces_of(const LookSubject& subject, const Recording& r, std::span<const std::int32_t> ids) {
  std::set<std::int32_t> named(ids.begin(), ids.end());
  for (const auto& top : r.top) {
    for (const TokenLogprob& t : top) named.insert(t.id);
  }
  Json pieces = Json::object();
  for (const std::int32_t id : named) pieces[std::to_string(id)] = piece_of(subject, id);
  return pieces;
}

/// What the figures need to know about a layer.
Json layer_json(const ModelConfig& config, std::size_t layer) {
  const AttentionConfig* const attention = attention_of(config, layer);
  if (attention == nullptr) return {{"mixer", "other"}};
  const AttentionConfig& a = *attention;
  const BlockConfig& block = config.blocks[layer];
  const auto* const dense = find<DenseConfig>(block);
  return {{"mixer", "attention"},
          {"heads", a.n_heads},
          {"kv_heads", a.n_kv_heads},
          {"head_dim", a.head_dim},
          {"window", a.window ? Json(*a.window) : Json()},
          {"softcap", a.softcap ? Json(*a.softcap) : Json()},
          {"rope", a.rope.has_value()},
          {"parallel", block.is_parallel()},
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
      if (id >= 0) pieces[std::to_string(id)] = piece_of(subject, id);
    }
  }
}

std::vector<std::int32_t> predicted_in(const Recording& r) {
  std::vector<std::int32_t> ids;
  for (const auto& top : r.top) ids.push_back(top.front().id);
  return ids;
}

/// The values that a changed run has, too.
void add_values_of_run(const LookSubject& subject, const LookOptions& o, const LookPlan& plan, const Recording& r,
                       std::span<const SiteWrite> writes, Look& look) {
  add_text_values(r, look.data);
  add_stream_values(subject.context, r, writes, look.data);
  add_direction_values(subject.context, r, look.data);
  add_rope_values(r, look.data);
  add_mlp_values(subject.context, r, look.data);
  add_funnel_values(r, o.sampling, o.seed, look.data);
  add_sites(r, plan, look.data);
  add_lens_values(subject.context, r, look.data);
  add_head_values(subject.context, r, look.data);
  add_state_values(subject.context, r, writes, look.data);
  try {
    add_attribution_values(subject.context, r, look.data);
  } catch (const Unsupported&) {
    // A head that is not linear: the page says that the figure does not apply.
  }
  add_maps(r, plan.part(LookPart::Kind::maps)->exact, look.maps);
}

/// The second run, and what differs.
Json add_change(const LookSubject& subject, const LookOptions& o, const LookPlan& plan, const Recording& r,
                Look& look) {
  const LookChange& change = o.change;
  if (!change.exists()) return {};
  const std::vector<std::int32_t>& ids = change.corrupted.empty() ? o.ids : change.corrupted;
  const Recording after = record(subject.context, ids, r.position, kLookTop, change.writes);
  add_difference_values(r, after, look.data);
  if (!change.corrupted.empty()) add_patch_values(subject.context, r, ids, look.data);
  look.data.begin_after();
  look.maps.begin_after();
  add_embedding_values(subject.context, after, o.embedding, look.data);
  add_values_of_run(subject, o, plan, after, change.writes, look);
  look.data.share_with_after(kCostsBlock);
  std::vector<std::string> texts;
  for (const SiteWrite& write : change.writes) texts.push_back(write.text);
  return {{"ids", ids}, {"set", texts}, {"predicted", predicted_in(after)}};
}

/// The chosen cells, those of the trail and the largest, as far as the plan has them.
Json add_cells(const LookSubject& subject, const LookOptions& o, const LookPlan& plan, Recording& r, LookData& data) {
  std::vector<CellName> cells;
  SiteShapes shapes;
  for (const std::string& site : r.facts.forward) shapes.emplace(site, r.shape(site));
  for (const std::string& name : o.cells) cells.push_back(cell_named(shapes, name));
  if (plan.includes(LookPart::Kind::cells)) {
    const std::vector<CellName> largest = largest_cells(r);
    cells.insert(cells.end(), largest.begin(), largest.end());
  }
  if (plan.includes(LookPart::Kind::trail)) {
    const std::vector<CellName> trail = trail_of(subject.context, r);
    cells.insert(cells.end(), trail.begin(), trail.end());
  }
  return spell_cells(subject.context, r, cells, data);
}

/// The values of the sampler's options, what else they may be, and the filters in their order.
void add_sampling(const SamplingConfig& config, Json& about) {
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInGenerate) || !row.is_of_sampler()) continue;
    if (std::string_view(row.name).starts_with("dry_")) continue;  // the page has no breakers
    const auto* const whole = std::get_if<int SamplingConfig::*>(&row.value);
    const auto value_in = [&](const SamplingConfig& from) {
      return whole != nullptr ? Json(from.**whole) : Json(from.*std::get<double SamplingConfig::*>(row.value));
    };
    about["sampling"][row.name] = value_in(config);
    about["sampling_options"].push_back({{"name", row.name},
                                         {"default", value_in(SamplingConfig())},
                                         {"lowest", row.range.lowest},
                                         {"is_above", row.range.is_above},
                                         {"highest", std::isinf(row.range.highest) ? Json() : Json(row.range.highest)},
                                         {"is_whole", whole != nullptr},
                                         {"is_rare", row.is_rare}});
  }
  for (const Filter& filter : filters()) about["filters"].push_back(filter.option);
}

/// The layer whose MLP is drawn, and the site of its input; null without a dense MLP.
Json mlp_json(const Recording& r) {
  const std::optional<std::int64_t> layer = drawn_mlp(*r.facts.config);
  return layer ? Json{{"layer", *layer}, {"input", mlp_input(r, *layer)}} : Json();
}

Json analogy_json(const std::vector<EmbeddingTerm>& terms) {
  Json list = Json::array();
  for (const EmbeddingTerm& term : terms) list.push_back({{"id", term.id}, {"factor", term.factor}});
  return list;
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

/// Throws for changes and cells that the model does not have, by a dry run.
void check_names(const ModelConfig& config, const LookOptions& o) {
  SiteShapes shapes;
  Recorder recorder({}, o.change.writes, site_layers(config),
                    [&](const SiteId& id, const Tensor& value) { shapes.emplace(name_of(id), value.shape); });
  ThreadPool pool(1);
  const auto n = static_cast<std::int64_t>(o.ids.size());
  DryPass dry(pool, {{0, n, 0, nullptr}});
  dry.pass().taps = &recorder;
  dry.pass().logits = {LogitRequest::Rows::range, 0, n, {}};
  dry.run(shape_model(config));
  recorder.check_writes_met(true);
  for (const std::string& name : o.cells) cell_named(shapes, name);
}

/// What the page says about the text and the model.
Json about_text(const LookSubject& subject, const LookOptions& o, const LookPlan& plan, const Recording& r) {
  Json layers = Json::array();
  for (std::size_t l = 0; l < r.facts.config->n_layers(); ++l) layers.push_back(layer_json(*r.facts.config, l));
  Json about = subject.about;
  about.update({{"ids", o.ids},
                {"analogy", analogy_json(o.embedding.analogy)},
                {"run", subject.run ? Json(subject.run->folder) : Json()},
                {"position", r.position},
                {"predicted", o.label ? Json::array() : Json(predicted_in(r))},
                {"label", o.label ? o.label->about : Json()},
                {"vocab_size", r.facts.config->vocab_size},
                {"d_model", r.facts.config->d_model},
                {"max_seq_len", r.facts.config->max_seq_len},
                {"mlp", mlp_json(r)},
                {"seed", o.seed},
                {"has_adapter", !subject.context.modifiers.empty()},
                {"contains", plan_json(plan, true)},
                {"left_out", plan_json(plan, false)},
                {"layers", std::move(layers)}});
  add_sampling(o.sampling, about);
  return about;
}

/// The page of a model with labels: of a classifier, or of a query and a document.
Look look_at_label(const LookSubject& subject, const LookOptions& o, const LookPlan& plan) {
  const auto n = static_cast<std::int64_t>(o.ids.size());
  const Recording r = record(subject.context, Tokens(o.ids, o.label->types), o.position.value_or(n - 1), kLookTop);
  Look look;
  add_label_values(subject.context, r, *o.label, look.data);
  add_head_values(subject.context, r, look.data);
  add_rope_values(r, look.data);
  add_sites(r, plan, look.data);
  add_maps(r, plan.part(LookPart::Kind::maps)->exact, look.maps);
  add_parameter_values(*r.facts.config, look.data);
  look.about = about_text(subject, o, plan, r);
  look.about["saes"] = Json::array();
  look.about["after"] = Json();
  std::vector<std::int32_t> named = o.ids;
  named.push_back(o.label->path.baseline);
  look.about["pieces"] = pieces_of(subject, r, named);
  look.about["cells"] = Json::array();
  look.about["formulas"] = Json::array();
  return look;
}

}  // namespace

bool is_map(const std::string& site) {
  return site.ends_with(".hook_scores_raw") || site.ends_with(".hook_attn_scores") || site.ends_with(".hook_pattern");
}

bool is_drawn_row(const ModelConfig& config, const std::string& site) {
  const std::optional<std::int64_t> mlp = drawn_mlp(config);
  return site == "hook_logits" || site == "unembed.hook_in" || is_map(site) ||
         (mlp && site == in_block(*mlp, "mlp.hook_pre"));
}

void check_look(const LookSubject& subject, const LookOptions& options) {
  const ModelConfig& config = subject.context.model->config();
  const bool predicts = !config.encoder && !is_bidirectional(config) && config.has_head;
  const bool classifies = config.task && config.task->task == TaskHead::Task::classify;
  if (options.label ? !classifies : config.task || !predicts) {
    throw Unsupported("look", "expected a model that predicts the next token, or a classifier");
  }
  const bool has_more = options.change.exists() || !options.cells.empty() || subject.run;
  if (options.label && (has_more || !subject.dictionaries.empty())) {
    throw Unsupported("look", "a page of labels has no --set, --corrupted, --cell, --run and --sae");
  }
  if (config.altup) throw Unsupported("look", "the page shows one residual stream, the model has several (AltUp)");
  stream_states(config, true);
  const auto n = static_cast<std::int64_t>(options.ids.size());
  if (n > config.max_seq_len) {
    throw BadInput("look", "the text has {} tokens, the model's context is {}", n, config.max_seq_len);
  }
  const std::vector<std::int32_t>& corrupted = options.change.corrupted;
  subject.context.check_ids(options.ids);
  subject.context.check_ids(corrupted);
  if (!corrupted.empty() && corrupted.size() != options.ids.size()) {
    throw BadInput("--corrupted", "expected a text of {} tokens, as long as TEXT, got {}", n, corrupted.size());
  }
  if (options.position && (*options.position < 0 || *options.position >= n)) {
    throw BadInput("--position", "expected a position from 0 to {}, got {}", n - 1, *options.position);
  }
  if (!subject.context.modifiers.empty() && !options.cells.empty()) {
    throw Unsupported("--cell", "values of a model with an adapter or a control vector are not spelled");
  }
  if (!options.change.writes.empty() || !options.cells.empty()) check_names(config, options);
  if (subject.run) check_run(*subject.run, config);
}

Look look_at(const LookSubject& subject, const LookOptions& o, const LookPlan& plan) {
  check_look(subject, o);
  if (o.label) return look_at_label(subject, o, plan);
  const auto n = static_cast<std::int64_t>(o.ids.size());
  Recording r = record(subject.context, o.ids, o.position.value_or(n - 1), kLookTop);
  Look look;
  add_embedding_values(subject.context, r, o.embedding, look.data);
  add_values_of_run(subject, o, plan, r, {}, look);
  add_cost_values(subject, r, look.data);
  Json saes = add_feature_values(subject, r, look.data);
  Json spelled = add_cells(subject, o, plan, r, look.data);
  if (subject.run) {
    add_run_values(subject.context, r, *subject.run, plan.includes(LookPart::Kind::run), look.data);
  }
  Json after = add_change(subject, o, plan, r, look);

  Json pieces = pieces_of(subject, r, o.ids);
  add_named(subject, look.data, pieces);
  for (const EmbeddingTerm& term : o.embedding.analogy) pieces[std::to_string(term.id)] = piece_of(subject, term.id);
  look.about = about_text(subject, o, plan, r);
  look.about["saes"] = std::move(saes);
  look.about["after"] = std::move(after);
  look.about["pieces"] = std::move(pieces);
  look.about["cells"] = std::move(spelled["cells"]);
  look.about["formulas"] = std::move(spelled["formulas"]);
  return look;
}

}  // namespace vitrine
