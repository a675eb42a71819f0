#include "generate/open_model.h"

#include <cmath>

#include "base/error.h"
#include "hub/pull.h"

namespace vitrine {
namespace {

void open_tokenizer(const std::string& path, const OpenOptions& options, bool is_wanted, OpenedModel& model) {
  const std::string& own = model.checkpoint.tokenizer_path;
  model.tokenizer_path = options.tokenizer.empty() ? own : options.tokenizer;
  if (!options.tokenizer.empty()) {
    model.tokenizer = load_tokenizer(options.tokenizer, options.tokenizer_options);
    return;
  }
  if (!is_wanted) return;
  try {
    if (own.empty()) throw BadInput(path, "holds no tokenizer; open it with one, or give ids in place of a text");
    model.tokenizer = load_tokenizer(own, options.tokenizer_options);
  } catch (const BadInput&) {
    model.why_no_tokenizer = std::current_exception();
  } catch (const Unsupported&) {
    model.why_no_tokenizer = std::current_exception();
  }
}

}  // namespace

void OpenedModel::add(const OpenAdapter& adapter, ThreadPool& pool) {
  if (!std::isfinite(adapter.scale)) throw BadInput(adapter.path, "expected a finite scale, got {}", adapter.scale);
  adapters.push_back(load_adapter(adapter.path, checkpoint, pool));
  applied.push_back({adapters.back().get(), adapter.scale});
}

OpenedModel open_checkpoint(const std::string& path, Checkpoint checkpoint, const OpenOptions& options,
                            bool wants_tokenizer, ThreadPool& pool) {
  OpenedModel model{std::move(checkpoint)};
  model.compute = checked_compute(model.checkpoint, options.compute);
  for (const OpenAdapter& adapter : options.adapters) model.add(adapter, pool);
  open_tokenizer(path, options, wants_tokenizer, model);
  return model;
}

OpenOptions with_local_paths(std::string& path, OpenOptions options) {
  HubAccess access;
  access.poll = options.poll;
  path = local_path(path, HubWanted::model, access);
  options.tokenizer = local_path(options.tokenizer, HubWanted::tokenizer, access);
  options.chat_template = local_path(options.chat_template, HubWanted::chat_template, access);
  for (OpenAdapter& adapter : options.adapters) adapter.path = local_path(adapter.path, HubWanted::model, access);
  return options;
}

OpenedModel open_model(const std::string& given, const OpenOptions& asked, bool wants_tokenizer, ThreadPool& pool) {
  std::string path = given;
  const OpenOptions options = with_local_paths(path, asked);
  return open_checkpoint(path, load_checkpoint(path, {options.allowed_config_keys, options.allowed_tensors}), options,
                         wants_tokenizer, pool);
}

}  // namespace vitrine
