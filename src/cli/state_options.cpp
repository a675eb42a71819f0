#include "cli/state_options.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine::cli {

StateFiles::StateFiles(const Options& o, const Session& session, std::optional<std::string> state,
                       const std::optional<std::string>& save_state)
    : state_(std::move(state)) {
  if (!state_ && !save_state) return;
  const char* const where = state_ ? "--state" : "--save-state";
  if (o.ranks != nullptr) throw Unsupported(where, "a part of a model has a part of the state: run it without --split");
  check_has_state_file(session.checkpoint.model->config(), where);
  if (save_state) writer_.emplace(*save_state, *session.checkpoint.model);
}

std::shared_ptr<KvCache> StateFiles::open(const GenerateContext& context, std::int64_t n_more) const {
  const Model& model = *context.model;
  if (state_) return read_state(*state_, model, n_more, context.kv_types, *context.kernels, *context.kv_memory);
  const std::int64_t capacity = std::min(n_more, model.config().max_seq_len);
  return std::make_shared<KvCache>(context.make_cache(capacity));
}

void StateFiles::save(const GenerateContext& context, const KvCache& cache) {
  if (writer_) writer_->write(cache, *context.kernels);
}

}  // namespace vitrine::cli
