#include "serve/sampler_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/nearest.h"

namespace vitrine {
namespace {

/// A step of the sampler: llama-server's name of it, the letter, other spellings, and what turns it off.
struct SamplerStep {
  const char* name;
  char letter;
  std::vector<std::string> others;
  void (*turn_off)(GenerateOptions& options);
};

/// In the sampler's order (generate/options.h).
const std::vector<SamplerStep>& sampler_steps() {
  using O = GenerateOptions;
  static const std::vector<SamplerStep> steps = {
      {"penalties", 'e', {}, [](O& o) { o.repeat_penalty = 1, o.frequency_penalty = o.presence_penalty = 0; }},
      {"dry", 'd', {}, [](O& o) { o.dry_multiplier = 0; }},
      {"temperature", 't', {"temp"}, [](O& o) { o.temperature = 1; }},
      {"top_n_sigma", 's', {}, [](O& o) { o.top_n_sigma = 0; }},
      {"top_k", 'k', {}, [](O& o) { o.top_k = 0; }},
      {"typ_p", 'y', {"typical_p", "typical", "typ"}, [](O& o) { o.typical_p = 1; }},
      {"top_p", 'p', {"nucleus"}, [](O& o) { o.top_p = 1; }},
      {"min_p", 'm', {}, [](O& o) { o.min_p = 0; }},
      {"xtc", 'x', {}, [](O& o) { o.xtc_probability = 0; }},
      {"infill", 'i', {}, [](O& o) { o.infill = false; }}};
  return steps;
}

/// The number of the step. Throws RequestError for another name.
std::size_t step_named(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  const std::vector<SamplerStep>& steps = sampler_steps();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& others = steps[i].others;
    if (name == steps[i].name || std::find(others.begin(), others.end(), name) != others.end()) return i;
    names.emplace_back(steps[i].name);
  }
  throw RequestError(kInvalid, "samplers", "there is no step \"{}\"{}", name, did_you_mean(name, names));
}

std::size_t step_of_letter(char letter) {
  const std::vector<SamplerStep>& steps = sampler_steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].letter == letter) return i;
  }
  throw RequestError(kInvalid, "samplers", "there is no step '{}'", letter);
}

}  // namespace

void read_samplers(RequestFields& fields, GenerateOptions& options) {
  const Json* const value = fields.find("samplers");
  if (value == nullptr || value->empty()) return;
  std::vector<std::size_t> wanted;
  if (value->is_string()) {
    for (const char letter : value->get_ref<const std::string&>()) wanted.push_back(step_of_letter(letter));
  } else {
    const auto names = fields.get<std::vector<std::string>>("samplers", "a list of names");
    for (const std::string& name : *names) wanted.push_back(step_named(name));
  }
  options.infill = true;  // if it is named
  std::vector<std::size_t> in_order = wanted;
  std::erase(in_order, step_named("temperature"));
  if (std::adjacent_find(in_order.begin(), in_order.end(), std::greater_equal<>()) != in_order.end()) {
    std::vector<std::string> order;
    for (const SamplerStep& step : sampler_steps()) order.emplace_back(step.name);
    throw RequestError(kInvalid, "samplers", "the order of the steps is {}", fmt::join(order, ", "));
  }
  for (std::size_t i = 0; i < sampler_steps().size(); ++i) {
    if (std::find(wanted.begin(), wanted.end(), i) == wanted.end()) sampler_steps()[i].turn_off(options);
  }
}

std::vector<std::int32_t> read_ids_not_allowed(RequestFields& fields, std::int64_t vocab_size) {
  const Json* const value = fields.find("allowed_token_ids");
  if (value == nullptr || (value->is_array() && value->empty())) return {};
  std::vector<bool> is_allowed(static_cast<std::size_t>(vocab_size));
  for (const std::int32_t id : read_ids(*value, "allowed_token_ids", vocab_size)) {
    is_allowed[static_cast<std::size_t>(id)] = true;
  }
  std::vector<std::int32_t> others;
  for (std::size_t id = 0; id < is_allowed.size(); ++id) {
    if (!is_allowed[id]) others.push_back(static_cast<std::int32_t>(id));
  }
  return others;
}

}  // namespace vitrine
