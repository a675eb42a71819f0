#include "look/recording.h"

#include <algorithm>

#include "inspect/recorder.h"
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

Recording record(const GenerateContext& base, std::span<const std::int32_t> ids, std::int64_t position, int n_top) {
  Recording r;
  r.position = position;
  r.facts.config = &base.model->config();
  r.facts.ids.assign(ids.begin(), ids.end());
  Ledger ledger;
  OpLog log(ledger, r.facts);
  Recorder recorder({}, {}, site_layers(*r.facts.config), [&](const SiteId& id, const Tensor& value) {
    r.facts.forward.push_back(name_of(id));
    log.see(id, value);
  });
  GenerateContext context = base;
  context.taps = &recorder;
  Arena arena;
  Pass pass = context.make_pass(arena, {{0, r.n_tokens(), 0, nullptr}});
  pass.ledger = &ledger;
  pass.logits = {LogitRequest::Rows::range, 0, r.n_tokens(), {}};
  context.forward(pass, Tokens{ids});

  for (std::int64_t t = 0; t < r.n_tokens(); ++t) {
    r.top.push_back(top_logprobs(r.row("hook_logits", t), n_top));
    if (t == 0) {
      r.logprob.push_back(kNoValue);
      r.rank.push_back(kNoValue);
      continue;
    }
    const std::span<const float> before = r.row("hook_logits", t - 1);
    const std::int32_t id = ids[static_cast<std::size_t>(t)];
    r.logprob.push_back(logprob(before, id));
    r.rank.push_back(static_cast<double>(rank_of(before, id)));
  }
  return r;
}

}  // namespace vitrine
