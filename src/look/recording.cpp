#include "look/recording.h"

#include <algorithm>

#include "inspect/text_pass.h"
#include "spell/op_log.h"

namespace vitrine {

std::span<const float> Recording::row(const std::string& site, std::int64_t t) const {
  const Seen& seen = value(site);
  const std::int64_t width = seen.count() / n_tokens();
  return std::span(seen.values).subspan(static_cast<std::size_t>(t * width), static_cast<std::size_t>(width));
}

std::string in_block(std::int64_t layer, std::string_view name) {
  return "blocks." + std::to_string(layer) + "." + std::string(name);
}

Recording record(const GenerateContext& base, const Tokens& tokens, std::int64_t position, int n_top,
                 std::span<const SiteWrite> writes) {
  const std::span<const std::int32_t> ids = tokens.ids;
  Recording r;
  r.position = position;
  r.facts.config = &base.model->config();
  r.facts.max_text = kMaxText;
  r.facts.ids.assign(ids.begin(), ids.end());
  Ledger ledger;
  OpLog log(ledger, r.facts);
  Recorder recorder({}, {writes.begin(), writes.end()}, site_layers(*r.facts.config),
                    [&](const SiteId& id, const Tensor& value) {
                      r.facts.forward.push_back(name_of(id));
                      log.see(id, value);
                    });
  Arena arena;
  Pass pass = text_pass(base, arena, tokens);
  pass.taps = &recorder;
  pass.ledger = &ledger;
  const bool has_labels = r.facts.config->task.has_value();
  if (has_labels) {
    pass.receive_outputs = [](const Tensor&) {};
  } else {
    pass.logits = {LogitRequest::Rows::range, 0, r.n_tokens(), {}};
  }
  base.model->forward(pass, tokens);
  recorder.check_writes_met();
  if (has_labels) return r;

  r.top.resize(ids.size());
  r.logprob.assign(ids.size(), kNoValue);
  r.rank.assign(ids.size(), kNoValue);
  base.pool->parallel_for(r.n_tokens(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto i = static_cast<std::size_t>(t);
      r.top[i] = top_logprobs(r.row("hook_logits", t), n_top);
      if (t == 0) continue;
      const std::span<const float> before = r.row("hook_logits", t - 1);
      r.logprob[i] = logprob(before, ids[i]);
      r.rank[i] = static_cast<double>(rank_of(before, ids[i]));
    }
  });
  return r;
}

}  // namespace vitrine
