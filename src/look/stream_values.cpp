#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "inspect/recorder.h"
#include "inspect/text_pass.h"
#include "look/figures.h"
#include "model/mixers/ffn/sites.h"
#include "ops/attention_sites.h"
#include "pass/taps.h"

namespace vitrine {
namespace {

using Values = std::span<const float>;

double deviation(Values x) {
  double sum = 0, squares = 0;
  for (const float v : x) sum += static_cast<double>(v);
  const double n = static_cast<double>(x.size()), mean = sum / n;
  for (const float v : x) squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  return std::sqrt(squares / n);
}

double product(Values a, Values b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}
double rms(Values x) { return std::sqrt(product(x, x) / static_cast<double>(x.size())); }
double cosine(Values a, Values b) { return cosine_of(product(a, b), product(a, a), product(b, b)); }

/// What a sublayer adds to the stream, and the stream before and after it.
struct Write {
  std::string added, before, after;
};

std::vector<Write> writes_of(const Recording& r) {
  std::vector<Write> writes;
  for (std::int64_t l = 0; l < static_cast<std::int64_t>(r.facts.config->n_layers()); ++l) {
    const std::string pre = in_block(l, "hook_resid_pre"), mid = in_block(l, "hook_resid_mid"),
                      post = in_block(l, "hook_resid_post");
    const bool is_serial = r.has(mid);
    const std::string normalized = in_block(l, "hook_normalized_resid_mid");
    writes.push_back({in_block(l, "hook_attn_out"), pre, is_serial ? mid : post});
    const std::string convolved = in_block(l, "hook_resid_mid_convolution");  // before a convolution is added
    writes.push_back({in_block(l, "hook_mlp_out"), r.has(normalized) ? normalized : (is_serial ? mid : pre),
                      r.has(convolved) ? convolved : post});
  }
  return writes;
}

/// Taps that replace the output of every norm in the blocks by its input, and keep the deviations of the inputs of the
/// sublayers, in a run with the changes of `writes`. Parallel sublayers read one input.
class WithoutNorms : public Taps {
 public:
  WithoutNorms(const ModelConfig& config, Recorder& writes) : config_(config), writes_(writes) {}

  bool wants(const SiteId& id) const override {
    return (id.layer >= 0 && id.expert == SiteId::kNoExpert) || writes_.wants(id);
  }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& before) override {
    const Tensor value = writes_.wants(id) ? writes_.visit(pass, id, before) : before;
    const auto is = [&](auto... sites) { return ((id.site == Site(sites)) || ...); };
    if (is(Site::ln1_out, Site::ln2_out)) {
      if (is(Site::ln1_out) || !config_.blocks[static_cast<std::size_t>(id.layer)].is_parallel()) {
        deviations.push_back(deviation(stream_));
      }
      return of(pass, stream_, value);
    }
    if (is(Site::mid_out, Site::post_out)) return of(pass, stream_, value);
    if (is(Site::ln1_post_out, Site::ln2_post_out, AttentionSite::q_norm_out, AttentionSite::k_norm_out)) {
      return of(pass, before_norm_, value);
    }
    if (is(Site::resid_pre, Site::resid_mid, Site::resid_post)) {
      stream_.assign(value.values().begin(), value.values().end());
    } else if (is(AttentionSite::q, AttentionSite::rot_q)) {  // the norm of q may come after either
      before_norm_of_q_.assign(value.values().begin(), value.values().end());
    } else if (is(AttentionSite::k, AttentionSite::rot_k)) {
      before_norm_of_k_.assign(value.values().begin(), value.values().end());
    } else if (is(AttentionSite::attn_proj, FfnSite::mlp_proj)) {
      before_norm_.assign(value.values().begin(), value.values().end());
    } else if (is(AttentionSite::q_norm_scale)) {
      before_norm_ = before_norm_of_q_;
    } else if (is(AttentionSite::k_norm_scale)) {
      before_norm_ = before_norm_of_k_;
    }
    return value;
  }

  std::vector<double> deviations;

 private:
  static Tensor of(Pass& pass, const std::vector<float>& from, const Tensor& value) {
    const Tensor copy = pass.tensor(value.shape);
    std::copy(from.begin(), from.end(), copy.data);
    return copy;
  }

  const ModelConfig& config_;
  Recorder& writes_;
  std::vector<float> stream_, before_norm_, before_norm_of_q_, before_norm_of_k_;
};

/// σ of the input of each sublayer without norms; NaN from the first that float32 cannot represent.
std::vector<double> deviations_without_norms(const GenerateContext& context, const Recording& r,
                                             std::span<const SiteWrite> writes, std::size_t n) {
  Recorder changes({""}, {writes.begin(), writes.end()}, site_layers(*r.facts.config), {});
  WithoutNorms taps(*r.facts.config, changes);
  Arena arena;
  const Tokens tokens{std::span(r.facts.ids)};
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &taps;
  try {
    context.model->forward(pass, tokens);
  } catch (const NotFinite&) {
  }
  for (double& x : taps.deviations) x = std::isfinite(x) ? x : kNoValue;
  taps.deviations.resize(n, kNoValue);
  return taps.deviations;
}

bool has_norms_before_sublayers(const ModelConfig& config) {
  const auto has_norm = [](const Sublayer& s) { return s.norms.pre || s.input == Sublayer::Input::previous; };
  return config.layers.empty() && std::all_of(config.blocks.begin(), config.blocks.end(), [&](const BlockConfig& b) {
           return std::all_of(b.sublayers.begin(), b.sublayers.end(), has_norm);
         });
}

void add_ledger(const Recording& r, const std::vector<Write>& writes, LookData& data) {
  const std::int64_t n = r.n_tokens(), n_writes = static_cast<std::int64_t>(writes.size());
  std::vector<double> stream, write, agreement;
  for (const Write& w : writes) {
    for (std::int64_t t = 0; t < n; ++t) {
      stream.push_back(rms(r.row(w.before, t)));
      write.push_back(rms(r.row(w.added, t)));
      agreement.push_back(cosine(r.row(w.after, t), r.row(writes.back().after, t)));
    }
  }
  data.add("stream", "ledger.stream", {n_writes, n}, stream);
  data.add("stream", "ledger.write", {n_writes, n}, write);
  data.add("stream", "ledger.cosine", {n_writes, n}, agreement);
}

}  // namespace

void add_stream_values(const GenerateContext& context, const Recording& r, std::span<const SiteWrite> changes,
                       LookData& data) {
  const std::int64_t n = r.n_tokens(), n_layers = static_cast<std::int64_t>(r.facts.config->n_layers());
  if (!r.has(in_block(0, "hook_attn_out"))) return;
  const std::vector<Write> writes = writes_of(r);
  std::vector<double> scales;
  for (const Write& w : writes) {
    const double added = deviation(r.value(w.added).values), stream = deviation(r.value(w.before).values);
    scales.push_back(added > 0 ? added / std::sqrt(added * added + stream * stream) : 0);
  }
  data.add("stream", "update_scale", {n_layers, 2}, scales);
  add_ledger(r, writes, data);
  if (has_norms_before_sublayers(*r.facts.config)) {
    std::vector<double> with;
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (i % 2 == 1 && r.facts.config->blocks[i / 2].is_parallel()) continue;
      with.push_back(deviation(r.value(writes[i].before).values));
    }
    data.add("stream", "stream_std.with", with);
    data.add("stream", "stream_std.without", {static_cast<std::int64_t>(with.size())},
             deviations_without_norms(context, r, changes, with.size()));
  }
  std::vector<double> before, after;
  for (std::int64_t t = 0; t < n; ++t) {
    before.push_back(rms(r.row(writes.back().after, t)));
    after.push_back(rms(r.row("unembed.hook_in", t)));
  }
  data.add("stream", "rms.before", before);
  data.add("stream", "rms.after", after);
}

}  // namespace vitrine
