// vitrine._engine.Model: every call takes a text or ids.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>

#include "engine.h"

namespace vitrine::python {
namespace {

using Adapters = std::vector<std::pair<std::string, double>>;
using Controls = std::vector<std::tuple<std::string, double, int, int>>;
using Strings = std::vector<std::string>;
/// [NAME=]PATH[@SITE] of each, what they do, and the tokens at which they do nothing.
using Dictionaries = std::tuple<Strings, std::string, std::string>;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

OpenOptions options_of(const std::string& tokenizer, int threads, const std::string& kv, const std::string& compute) {
  OpenOptions options;
  options.tokenizer = tokenizer;
  options.threads = threads;
  const auto types = kv_types_named(kv);
  if (!types) raise_bad_input("[kv] expected f32, bf16, f16, int8, int4, or two of them as in int8:int4, got " + kv);
  options.kv_types = *types;
  const auto named = compute_named(compute);
  if (!named) raise_bad_input("[compute] expected auto, f32, int8 or bf16, got " + compute);
  options.compute = *named;
  options.poll = poll_signals;
  return options;
}

LanguageModel open(const std::string& path, const std::string& tokenizer, int threads, const std::string& kv,
                   const std::string& compute, const Adapters& adapters, const Controls& controls,
                   const Dictionaries& saes, const Strings& allowed_keys, const Strings& allowed_tensors) {
  OpenOptions options = options_of(tokenizer, threads, kv, compute);
  for (const auto& [folder, scale] : adapters) options.adapters.push_back({folder, scale});
  for (const auto& [file, scale, first, last] : controls) options.controls.push_back({file, scale, first, last});
  const auto& [paths, use, skipped] = saes;
  for (const std::string& text : paths) options.dictionaries.push_back(dictionary_of(text));
  options.dictionary_use = dictionary_use_named(use).value_or(DictionaryUse::automatic);
  if (!use.empty() && !dictionary_use_named(use)) {
    raise_bad_input("[sae_use] expected read, error or replace, got " + use);
  }
  options.skipped_tokens = skipped;
  options.allowed_config_keys = allowed_keys;
  options.allowed_tensors = allowed_tensors;
  const GilReleased free;
  return watched([path, options] { return LanguageModel::open(path, options); });
}

/// Tensors, each with its type ("f32", "f16", "bf16"). Those of 16 bits arrive as integers.
LanguageModel from_tensors(const std::string& config, const nb::list& tensors, const std::string& tokenizer,
                           int threads, const std::string& kv, const std::string& compute, const Strings& allowed_keys,
                           const Strings& allowed_tensors) {
  OpenOptions options = options_of(tokenizer, threads, kv, compute);
  options.allowed_config_keys = allowed_keys;
  options.allowed_tensors = allowed_tensors;
  const std::shared_ptr<std::vector<AnyArray>> owner = shared(std::vector<AnyArray>());
  std::vector<StateTensor> all;
  for (const nb::handle entry : tensors) {
    auto [name, type, array] = nb::cast<std::tuple<std::string, std::string, AnyArray>>(entry);
    StateTensor tensor;
    tensor.name = std::move(name);
    tensor.type = type == "f32" ? DType::f32 : type == "f16" ? DType::f16 : DType::bf16;
    tensor.shape.assign(array.shape_ptr(), array.shape_ptr() + array.ndim());
    tensor.bytes = {static_cast<const std::byte*>(array.data()), array.nbytes()};
    owner->push_back(std::move(array));
    all.push_back(std::move(tensor));
  }
  const GilReleased free;
  return LanguageModel::from_tensors(config, all, owner, options);
}

template <class T>
nb::object read_only(const StateTensor& tensor, const nb::capsule& owner) {
  const std::vector<std::size_t> sizes(tensor.shape.begin(), tensor.shape.end());
  const auto* const data = reinterpret_cast<const T*>(tensor.bytes.data());
  return nb::cast(nb::ndarray<nb::numpy, const T>(data, sizes.size(), sizes.data(), owner));
}

/// (name, type, array) of each tensor; arrays share the model's memory. Those of 16 bits are integers.
nb::list state(const LanguageModel& model) {
  std::vector<StateTensor> tensors;
  {
    const GilReleased free;
    tensors = model.state();
  }
  using Keeper = std::shared_ptr<const void>;
  nb::list result;
  for (const StateTensor& tensor : tensors) {
    auto keeper = std::make_unique<Keeper>(tensor.owner);
    const nb::capsule owner(keeper.get(), [](void* p) noexcept { delete static_cast<Keeper*>(p); });
    (void)keeper.release();
    const bool is_f32 = tensor.type == DType::f32;
    const std::string type(name_of(tensor.type));
    result.append(nb::make_tuple(tensor.name, type,
                                 is_f32 ? read_only<float>(tensor, owner) : read_only<std::uint16_t>(tensor, owner)));
  }
  return result;
}

nb::list top_of(const std::vector<TokenLogprob>& top) {
  nb::list list;
  for (const TokenLogprob& t : top) list.append(nb::make_tuple(t.id, t.logprob));
  return list;
}

nb::list predict(const LanguageModel& model, const nb::object& prompt, int top) {
  const Prompt text = prompt_of(prompt);
  std::vector<std::vector<TokenLogprob>> tops;
  {
    const GilReleased free;
    tops = model.predict(text, top);
  }
  nb::list result;
  for (const auto& entry : tops) result.append(top_of(entry));
  return result;
}

/// The most likely tokens of each row of logits.
nb::list top_of_rows(const nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>& rows, int n) {
  nb::list result;
  for (std::size_t row = 0; row < rows.shape(0); ++row) {
    result.append(top_of(top_logprobs({rows.data() + row * rows.shape(1), rows.shape(1)}, n)));
  }
  return result;
}

nb::object logits(const LanguageModel& model, const nb::object& prompt) {
  const std::vector<std::int32_t> ids = model.ids(prompt_of(prompt));
  const std::int64_t shape[] = {static_cast<std::int64_t>(ids.size()), model.vocab_size()};
  float* memory = nullptr;
  nb::object array = new_array(shape, memory);
  const GilReleased free;
  model.logits(ids, [&](std::int64_t position, std::span<const float> row) {
    std::copy(row.begin(), row.end(), memory + position * shape[1]);
  });
  return array;
}

/// (name, array) of each value, which moves into its array.
nb::list arrays_of(std::vector<NamedValue> values) {
  nb::list result;
  for (NamedValue& value : values) {
    nb::object array = array_of(std::move(value.values), value.shape);
    result.append(nb::make_tuple(value.name, array));
  }
  return result;
}

/// What the decoder of an encoder–decoder reads: a text, or its ids; None: nothing.
std::vector<std::int32_t> target_of(const LanguageModel& model, const nb::object& target) {
  if (target.is_none()) return {};
  Prompt read = prompt_of(target);
  if (auto* const ids = std::get_if<std::vector<std::int32_t>>(&read)) return std::move(*ids);
  return model.target_ids(std::get<std::string>(read));
}

/// The values of the sites in the order of the forward. The sites have hook_logits.
nb::list trace(const LanguageModel& model, const nb::object& prompt, const nb::object& target, const Strings& sites,
               const Strings& writes, bool gradients, const nb::object& hooks, const Strings& hook_sites) {
  const std::vector<std::int32_t> ids = model.ids(prompt_of(prompt));
  TraceOptions options;
  options.target = target_of(model, target);
  options.sites = sites;
  options.writes = writes;
  options.gradients = gradients;
  options.watch = watch_of(hooks, hook_sites);
  nb::object logits = nb::none();
  const auto n = static_cast<std::int64_t>(options.target.empty() ? ids.size() : options.target.size());
  if (!gradients && n > 0 && n <= model.max_seq_len()) {  // they are computed where Python has them
    const std::int64_t shape[] = {n, model.vocab_size()};
    float* memory = nullptr;
    logits = new_array(shape, memory);
    options.logits = {memory, static_cast<std::size_t>(shape[0] * shape[1])};
  }
  std::vector<SiteValue> values;
  {
    const GilReleased free;
    values = model.trace(ids, options);
  }
  nb::list result;
  for (SiteValue& value : values) {
    const bool is_logits = value.name == "hook_logits" && !logits.is_none();
    result.append(nb::make_tuple(value.name, is_logits ? logits : array_of(std::move(value.values), value.shape)));
  }
  return result;
}

/// The loss, and the gradients of the parameters.
nb::tuple grad(const LanguageModel& model, const nb::object& prompt, const nb::object& target, const nb::object& hooks,
               const Strings& hook_sites) {
  const Prompt text = prompt_of(prompt);
  const GradOptions options{watch_of(hooks, hook_sites), target_of(model, target)};
  std::vector<NamedValue> values;
  double loss = 0;
  {
    const GilReleased free;
    loss = model.grad(
        text, [&](NamedValue value) { values.push_back(std::move(value)); }, options);
  }
  return nb::make_tuple(loss, arrays_of(std::move(values)));
}

std::vector<std::int32_t> ids(const LanguageModel& model, const nb::object& prompt) {
  const Prompt text = prompt_of(prompt);
  const GilReleased free;
  const auto* const string = std::get_if<std::string>(&text);
  if (string == nullptr || string->size() < kLongText) return model.ids(text);
  return watched([model, text] { return model.ids(text); });
}

std::string features_json(const LanguageModel& model, const nb::object& prompt, std::size_t top) {
  const std::vector<std::int32_t> ids = model.ids(prompt_of(prompt));
  const GilReleased free;
  return model.features_json(ids, top);
}

std::string info_json(const LanguageModel& model) {
  const GilReleased free;
  return model.info_json();
}

void save(const LanguageModel& model, const std::string& folder) {
  const GilReleased free;
  model.save(folder);
}

/// An object for DLPack: a tensor of bfloat16 in the memory of an array of integers.
nb::object bfloat16_of(const nb::object& bits) {
  const auto array = nb::cast<nb::ndarray<nb::ro, const std::uint16_t, nb::c_contig, nb::device::cpu>>(bits);
  const std::vector<std::size_t> sizes(array.shape_ptr(), array.shape_ptr() + array.ndim());
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
  return nb::cast(nb::ndarray<nb::array_api, nb::ro>(array.data(), sizes.size(), sizes.data(), bits, nullptr, type,
                                                     nb::device::cpu::value));
}

}  // namespace

void bind_model(nb::module_& m) {
  using nb::literals::operator""_a;
  nb::class_<LanguageModel> bound(m, "Model");
  bind_batch(bound);
  bound.def_prop_ro("description", &LanguageModel::description)
      .def_prop_ro("vocab_size", &LanguageModel::vocab_size)
      .def_prop_ro("max_seq_len", &LanguageModel::max_seq_len)
      .def_prop_ro("d_model", &LanguageModel::d_model)
      .def_prop_ro("n_layers", &LanguageModel::n_layers)
      .def_prop_ro("config_json", &LanguageModel::config_json)
      .def("info_json", &info_json)
      .def("ids", &ids, "prompt"_a)
      .def("predict", &predict, "prompt"_a, "top"_a)
      .def("logits", &logits, "prompt"_a)
      .def("trace", &trace, "prompt"_a, "target"_a.none(), "sites"_a, "writes"_a, "gradients"_a, "hooks"_a.none(),
           "hook_sites"_a)
      .def("features_json", &features_json, "prompt"_a, "top"_a)
      .def("grad", &grad, "prompt"_a, "target"_a.none(), "hooks"_a.none(), "hook_sites"_a)
      .def("state", &state)
      .def("save", &save, "folder"_a);
  m.def("open_model", &open, "path"_a, "tokenizer"_a, "threads"_a, "kv"_a, "compute"_a, "adapters"_a, "controls"_a,
        "saes"_a, "allowed_keys"_a, "allowed_tensors"_a);
  m.def("model_of_tensors", &from_tensors, "config"_a, "tensors"_a, "tokenizer"_a, "threads"_a, "kv"_a, "compute"_a,
        "allowed_keys"_a, "allowed_tensors"_a);
  m.def("bfloat16_of", &bfloat16_of, "bits"_a);
  m.def("top_of_rows", &top_of_rows, "rows"_a, "n"_a);
}

}  // namespace vitrine::python
