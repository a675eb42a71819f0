#include "generate/open_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/adapters/control.h"
#include "checkpoint/adapters/modifier_text.h"
#include "checkpoint/new_head.h"
#include "features/load_dictionary.h"
#include "generate/preflight.h"
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

namespace {

/// A scale is a float where it multiplies.
void check_scale(const std::string& path, double scale) {
  if (std::abs(scale) <= std::numeric_limits<float>::max()) return;
  throw BadInput(path, "expected a finite scale of at most 3.4e38, got {}", scale);
}

/// The requests of a server alone choose by name.
ModifierText without_name(const char* option, ModifierText text) {
  if (text.name.empty()) return text;
  throw BadInput(option, "expected PATH or PATH=SCALE, got \"{}={}\": names are for `vitrine serve`", text.name,
                 text.path);
}

}  // namespace

OpenAdapter adapter_of(const std::string& text) {
  const ModifierText own = without_name("--adapter", parse_adapter_text(text));
  return {own.path, own.scale};
}

OpenControl control_of(const std::string& text) {
  const ModifierText own = without_name("--control", parse_control_text(text));
  return {own.path, own.scale, own.layers.first, own.layers.last};
}

OpenDictionary dictionary_of(const std::string& text) {
  DictionaryText own = parse_dictionary_text(text);
  return {std::move(own.path), std::move(own.name), std::move(own.site)};
}

void OpenedModel::add(const OpenAdapter& adapter, ThreadPool& pool) {
  check_scale(adapter.path, adapter.scale);
  std::set<std::string> absent;  // parameters of the head that the base lacks
  const std::optional<Json> head = checkpoint.model->config().task ? std::nullopt : config_of_head(adapter.path);
  if (head) {
    const auto note = [&](const ModelConfig&, const std::string& name, const Shape&, std::uint64_t, std::span<float>) {
      absent.insert(name);
    };
    checkpoint = with_new_head(checkpoint, *head, adapter.path + "/config.json", note);
  }
  auto loaded = load_adapter(adapter.path, checkpoint, pool, true);
  for (const std::string& name : absent) {
    if (!loaded->saved.contains(name)) {
      throw BadInput(adapter.path, "neither the adapter (modules_to_save) nor the model has {}", name);
    }
  }
  if (!loaded->saved.empty()) {
    if (std::any_of(adapters.begin(), adapters.end(), [](const auto& other) { return !other->saved.empty(); })) {
      throw BadInput(adapter.path, "another adapter has replaced the head of labels (modules_to_save)");
    }
    checkpoint = with_saved_parameters(checkpoint, *loaded);
  }
  adapters.push_back(std::move(loaded));
  applied.adapters.push_back({adapters.back(), adapter.scale});
}

void OpenedModel::add(const OpenControl& control) {
  const auto& [path, scale, first, last] = control;
  check_scale(path, scale);
  if (first < 0 || first > last) throw BadInput(path, "expected layers from first to last, got {} and {}", first, last);
  applied.controls.push_back({load_control(path, checkpoint.model->config()), scale, {first, last}});
}

void OpenedModel::add(const OpenDictionary& dictionary, DictionaryUse use, std::shared_ptr<const SkippedTokens> skipped,
                      ThreadPool& pool) {
  const DictionaryText text{dictionary.name, dictionary.path, dictionary.site};
  for (auto& loaded : load_dictionaries(text, *checkpoint.model, pool)) {
    for (const AppliedDictionary& other : applied.dictionaries) {
      if (!(other.dictionary->output == loaded->output) || other.dictionary->name != loaded->name) continue;
      throw BadInput(dictionary.path, "another dictionary is at {}: give each a name, as in --sae NAME=PATH",
                     name_of(loaded->output));
    }
    applied.dictionaries.push_back({std::move(loaded), use, skipped});
  }
}

namespace {

/// The tokens at which dictionaries do nothing; null: none.
std::shared_ptr<const SkippedTokens> skipped_tokens(const std::string& text, const Tokenizer* tokenizer) {
  if (text.empty() || text == "none") return nullptr;
  auto skipped = std::make_shared<SkippedTokens>();
  if (text == "special") {
    if (tokenizer == nullptr)
      throw BadInput("--sae-skip", "the model has no tokenizer, which names special tokens; give ids");
    for (std::int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      if (!tokenizer->is_text(id)) skipped->ids.push_back(id);
    }
    return skipped;
  }
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto id = number_in<std::int32_t>(rest.substr(0, comma));
    if (!id || *id < 0) throw BadInput("--sae-skip", "expected special, none, or ids as in 1,2, got \"{}\"", text);
    skipped->ids.push_back(*id);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  std::ranges::sort(skipped->ids);
  return skipped;
}

}  // namespace

OpenedModel open_checkpoint(const std::string& path, Checkpoint checkpoint, const OpenOptions& options,
                            bool wants_tokenizer, ThreadPool& pool) {
  OpenedModel model{std::move(checkpoint)};
  model.compute = checked_compute(model.checkpoint, options.compute);
  for (const OpenAdapter& adapter : options.adapters) model.add(adapter, pool);
  for (const OpenControl& control : options.controls) model.add(control);
  open_tokenizer(path, options, wants_tokenizer, model);
  if (options.dictionaries.empty()) return model;
  const auto skipped = skipped_tokens(options.skipped_tokens, model.tokenizer.get());
  for (const OpenDictionary& dictionary : options.dictionaries) {
    model.add(dictionary, options.dictionary_use, skipped, pool);
  }
  return model;
}

OpenOptions with_local_paths(std::string& path, OpenOptions options) {
  HubAccess access;
  access.poll = options.poll;
  access.check = [&](const std::string& headers) {
    refuse_obstacle(headers, {options.allowed_config_keys, options.allowed_tensors});
  };
  path = local_path(path, HubWanted::model, access);
  options.tokenizer = local_path(options.tokenizer, HubWanted::tokenizer, access);
  options.chat_template = local_path(options.chat_template, HubWanted::chat_template, access);
  for (OpenAdapter& adapter : options.adapters) adapter.path = local_path(adapter.path, HubWanted::model, access);
  for (OpenControl& control : options.controls) control.path = local_path(control.path, HubWanted::model, access);
  return options;
}

OpenedModel open_model(const std::string& given, const OpenOptions& asked, bool wants_tokenizer, ThreadPool& pool) {
  std::string path = given;
  const OpenOptions options = with_local_paths(path, asked);
  return open_checkpoint(path, load_checkpoint(path, {options.allowed_config_keys, options.allowed_tensors}), options,
                         wants_tokenizer, pool);
}

}  // namespace vitrine
