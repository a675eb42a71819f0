#include "inspect/stream_parts.h"

#include <numeric>

#include "base/error.h"
#include "base/exchanged.h"
#include "checkpoint/param_rows.h"
#include "ops/attention_sites.h"
#include "ops/by_head.h"
#include "ops/control.h"

namespace vitrine {

std::vector<double> doubles_of(const MatrixView& view, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(view.cols));
  read_row(view, row, values);
  return {values.begin(), values.end()};
}

const std::vector<double>& PositionValues::operator[](const SiteId& id) const {
  for (const auto& [site, values] : values_) {
    if (site == id) return values;
  }
  throw InternalError("attribute", "expected a value at {}", name_of(id));
}

SiteEdit without_bias(const SiteId& site, const Param& bias) {
  return {site, [&bias](const Tensor& own, std::int64_t) {
            std::vector<float> values(static_cast<std::size_t>(bias.view.cols));
            read_row(bias.view, 0, values);
            for (std::int64_t i = 0; i < own.count(); ++i) {
              own.data[i] -= values[static_cast<std::size_t>(i) % values.size()];
            }
          }};
}

void apply_norm(const NormConfig& c, const NormParams& w, double scale, std::span<StreamPart> parts) {
  const std::vector<double> weight = c.weight ? doubles_of(w.weight.view, 0) : std::vector<double>();
  for (StreamPart& part : parts) {
    const double sum = std::accumulate(part.vector.begin(), part.vector.end(), 0.0);
    const double mean = c.kind == NormConfig::Kind::layer ? sum / static_cast<double>(part.vector.size()) : 0;
    for (std::size_t i = 0; i < part.vector.size(); ++i) {
      const double factor = c.weight ? static_cast<double>(c.weight_offset) + weight[i] : 1.0;
      part.vector[i] = (part.vector[i] - mean) / scale * factor;
    }
  }
}

void apply_linear(const LinearParams& w, const std::string& bias_name, std::vector<StreamPart>& parts) {
  std::vector<std::vector<double>> results(parts.size());
  for (std::int64_t row = 0; row < w.weight.view.rows; ++row) {
    const std::vector<double> weights = doubles_of(w.weight.view, row);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::vector<double>& x = parts[i].vector;
      results[i].push_back(std::inner_product(x.begin(), x.end(), weights.begin(), 0.0));
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].vector = std::move(results[i]);
  if (w.bias.present()) parts.push_back({bias_name, doubles_of(w.bias.view, 0)});
}

namespace {

using Vector = std::vector<double>;

SiteEdit zeroed(const SiteId& site) {
  return {site, [](const Tensor& own, std::int64_t) { std::fill_n(own.data, own.count(), 0.0f); }};
}
SiteEdit zeroed_head(const SiteId& z, std::int64_t n_heads, std::int64_t head) {
  return {z, [n_heads, head](const Tensor& own, std::int64_t) {
            const std::int64_t n = own.row_size() / n_heads;
            for (std::int64_t t = 0; t < own.rows(); ++t) std::fill_n(own.row(t) + head * n, n, 0.0f);
          }};
}

void add_to(Vector& to, const Vector& from) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

/// One sublayer of a block: what it writes, and the norms around it.
struct Branch {
  std::string name;  ///< `blocks.3.attn`
  BlockSite at;
  Site out;  ///< What it adds to the stream.
  std::optional<HeadOutputs> heads;
  const SublayerNorms* norms;
  const SublayerNormParams* norm_params;
  NormSite post, sum;
  float factor = 1;
};

std::optional<HeadOutputs> heads_of(const Sublayer& sublayer, const SublayerParams& w) {
  return visit_sublayer(sublayer, w, [](const auto& kind, const auto& params) { return head_outputs(kind, params); });
}

std::vector<Branch> branches_of(const Model& model) {
  const ModelConfig& config = model.config();
  std::vector<Branch> all;
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const BlockConfig& block = config.blocks[layer];
    for (std::size_t i = 0; i < block.sublayers.size(); ++i) {
      const Sublayer& c = block.sublayers[i];
      const SublayerParams& w = model.params().blocks[params_block(config, layer)].sublayers[i];
      const SublayerNames names = names_of(c);
      const BlockSite at{static_cast<int>(layer), config.stack(), names.is_cross};
      const std::string resid = name_of(BlockSite{at.layer, at.stack}(Site::resid_pre));
      const std::string name = resid.substr(0, resid.rfind('.') + 1) + std::string(names.prefix);
      all.push_back({name, at, names.out, heads_of(c, w), &c.norms, &w.norms, at(names.post),
                     at(sum_sites(block, i).norm), c.scale});
    }
  }
  return all;
}

/// The divisor of a norm at the position.
double divisor(const PositionValues& values, const NormSite& at) { return values[at.scale].front(); }

/// What the heads of a sublayer write, and its bias, through the norm after it.
std::vector<StreamPart> parts_of_heads(const Branch& s, const PositionValues& values, std::size_t d) {
  const Vector& results = values[s.at(s.heads->gate.value_or(s.heads->z))];
  std::vector<StreamPart> parts;
  for (std::size_t h = 0; h < results.size() / d; ++h) {
    const auto begin = results.begin() + static_cast<std::ptrdiff_t>(h * d);
    parts.push_back({s.name + ".head." + std::to_string(h), Vector(begin, begin + static_cast<std::ptrdiff_t>(d))});
    parts.back().ablation.push_back(zeroed_head(s.at(s.heads->z), s.heads->n_heads, static_cast<std::int64_t>(h)));
  }
  const Param& bias = s.heads->wo.bias;
  StreamPart all_biases{s.name + ".bias", {}};
  if (bias.present()) {
    all_biases.vector = doubles_of(bias.view, 0);
    all_biases.ablation.push_back(without_bias(s.at(s.heads->proj_out), bias));
    parts.push_back(all_biases);
  }
  if (s.norms->post) apply_norm(*s.norms->post, s.norm_params->post, divisor(values, s.post), parts);
  if (s.norms->post && s.norms->post->bias) {
    if (!bias.present()) parts.push_back(all_biases);
    add_to(parts.back().vector, doubles_of(s.norm_params->post.bias.view, 0));
    parts.back().ablation.push_back(without_bias(s.post.out, s.norm_params->post.bias));
  }
  for (StreamPart& part : parts) {
    for (double& x : part.vector) x *= static_cast<double>(s.factor);
  }
  return parts;
}

/// Norms all parts of the stream, and adds the norm's bias as a part of its own.
void norm_stream(const NormConfig& c, const NormParams& w, const NormSite& at, const PositionValues& values,
                 const std::string& bias_name, std::vector<StreamPart>& parts) {
  apply_norm(c, w, divisor(values, at), parts);
  if (!c.bias) return;
  parts.push_back({bias_name, doubles_of(w.bias.view, 0), {without_bias(at.out, w.bias)}});
}

/// The parts of the embedding.
std::vector<StreamPart> embedding_of(const Model& model, const PositionValues& values) {
  const ModelConfig& config = model.config();
  const BlockSite at{-1, config.stack()};
  std::vector<StreamPart> parts;
  const auto add = [&](const char* name, Site site) { parts.push_back({name, values[at(site)], {zeroed(at(site))}}); };
  add("embed", Site::embed);
  if (config.embedding.n_types > 0 && !config.encoder) add("type_embed", Site::type_embed);
  if (config.embedding.position_table || config.embedding.sinusoid) add("pos_embed", Site::pos_embed);
  if (config.embedding.norm) {
    norm_stream(*config.embedding.norm, model.params().embed_norm, at(norms::embed), values, "embed_norm.bias", parts);
  }
  if (config.embedding.projects_sum) apply_linear(model.params().embed_proj, "embed_proj.bias", parts);
  return parts;
}

/// The heads that write what is at a site of a block.
std::optional<HeadOutputs> heads_at(const Model& model, const SiteId& id) {
  if (id.layer < 0) return {};
  const auto layer = static_cast<std::size_t>(id.layer);
  const std::vector<Sublayer>& sublayers = model.config().blocks[layer].sublayers;
  const BlockParams& own = model.params().blocks[params_block(model.config(), layer)];
  for (std::size_t i = 0; i < sublayers.size(); ++i) {
    const std::optional<HeadOutputs> heads = heads_of(sublayers[i], own.sublayers[i]);
    const bool is_own = heads && (id.site == heads->z || id.site == heads->gate);
    if (is_own && names_of(sublayers[i]).is_cross == id.cross) return heads;
  }
  return {};
}

/// The stream after a layer with a scalar is multiplied by it, and so is every part.
void scale_stream(const Model& model, int layer, std::vector<StreamPart>& parts) {
  const auto i = static_cast<std::size_t>(layer);
  if (!model.config().blocks[i].scalar) return;
  const double scalar = doubles_of(model.params().blocks[i].scalar.view, 0).front();
  for (StreamPart& part : parts) {
    for (double& x : part.vector) x *= scalar;
  }
}

/// What control vectors add after a layer, if they add anything.
void add_control(AppliedControls controls, const BlockSite& at, std::vector<StreamPart>& parts) {
  const std::vector<float> sum = sum_of_controls(controls, at.layer);
  if (sum.empty()) return;
  const SiteEdit without{BlockSite{at.layer, at.stack}(Site::resid_post), [sum](const Tensor& own, std::int64_t) {
                           for (std::int64_t i = 0; i < own.count(); ++i) {
                             own.data[i] -= sum[static_cast<std::size_t>(i) % sum.size()];
                           }
                         }};
  parts.push_back({"blocks." + std::to_string(at.layer) + ".control", Vector(sum.begin(), sum.end()), {without}});
}

}  // namespace

std::vector<SiteId> sites_of_parts(const Model& model, bool by_head) {
  const ModelConfig& config = model.config();
  const BlockSite top{-1, config.stack()};
  std::vector<SiteId> sites = {top(Site::embed), top(Site::type_embed), top(Site::pos_embed), top(norms::embed).scale,
                               top(norms::final).scale};
  for (const Branch& s : branches_of(model)) {
    const bool splits = by_head && s.heads.has_value();
    sites.push_back(s.at(splits ? s.heads->z : s.out));
    if (splits && s.heads->gate) sites.push_back(s.at(*s.heads->gate));
    if (splits && s.norms->post) sites.push_back(s.post.scale);
    if (s.norms->sum) sites.push_back(s.sum.scale);
  }
  return sites;
}

void add_value(const Model& model, Pass& pass, std::int64_t position, const SiteId& id, const Tensor& row,
               PositionValues& values) {
  const std::optional<HeadOutputs> heads = heads_at(model, id);
  const bool is_last = heads && id.site == heads->gate.value_or(heads->z);
  if (!is_last) return values.add(id, row);
  const std::vector<std::int64_t> number = {position};
  const Exchanged<RowsOfValue> rows(pass.rows, {id.stack, number});
  const ArenaScope scope(pass.arena);
  Tensor of_heads = row;
  if (heads->gate) {
    const Vector& z = values[BlockSite{id.layer, id.stack, id.cross}(heads->z)];
    of_heads = pass.tensor(row.shape);
    for (std::size_t i = 0; i < z.size(); ++i) of_heads.data[i] = static_cast<float>(z[i]) * row.data[i];
  }
  const Shape by_head{1, heads->n_heads, row.count() / heads->n_heads};
  values.add(id, heads_out(pass, heads->wo, of_heads.reshaped(by_head)));
}

std::vector<StreamPart> stream_parts(const Model& model, AppliedControls controls, const PositionValues& values,
                                     bool by_head) {
  const ModelConfig& config = model.config();
  std::vector<StreamPart> parts = embedding_of(model, values);
  const std::vector<Branch> branches = branches_of(model);
  for (const Branch& s : branches) {
    if (by_head && s.heads) {
      for (StreamPart& part : parts_of_heads(s, values, static_cast<std::size_t>(config.d_model)))
        parts.push_back(std::move(part));
    } else {
      parts.push_back({s.name, values[s.at(s.out)], {zeroed(s.at(s.out))}});
    }
    const bool ends_layer = &s == &branches.back() || (&s)[1].at.layer != s.at.layer;
    if (ends_layer) scale_stream(model, s.at.layer, parts);
    if (ends_layer) add_control(controls, s.at, parts);
    if (!s.norms->sum) continue;
    norm_stream(*s.norms->sum, s.norm_params->sum, s.sum, values, s.name + ".sum_norm.bias", parts);
  }
  if (config.final_norm) {
    const BlockSite at{-1, config.stack()};
    norm_stream(*config.final_norm, model.params().final_norm, at(norms::final), values, "final_norm.bias", parts);
  }
  return parts;
}

void check_stream_parts(const ModelConfig& config) {
  if (config.altup) {
    throw Unsupported("attribute", "the residual streams are not a sum: AltUp mixes them by what they are");
  }
  if (config.embedding.context > 1) {
    throw Unsupported("attribute", "the embedding of a token is that of several: its parts are not computed");
  }
  stream_states(config, false);
}

}  // namespace vitrine
