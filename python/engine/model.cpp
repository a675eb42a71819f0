// vitrine._engine.Model: every call takes a text or ids.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "engine.h"

namespace vitrine::python {
namespace {

OpenOptions options_of(const std::string& tokenizer, int threads, const std::string& kv, const std::string& compute,
                       const std::vector<std::pair<std::string, double>>& adapters,
                       const std::vector<std::string>& allowed_keys) {
  OpenOptions options;
  options.tokenizer = tokenizer;
  options.threads = threads;
  const auto types = kv_types_named(kv);
  if (!types) throw nb::value_error(("kv: expected f32, bf16, f16, int8, int4, or K:V, got " + kv).c_str());
  options.kv_types = *types;
  if (compute == "f32") {
    options.compute = Compute::f32;
  } else if (compute == "bf16") {
    options.compute = Compute::bf16;
  } else if (compute != "auto") {
    throw nb::value_error(("compute: expected auto, f32 or bf16, got " + compute).c_str());
  }
  for (const auto& [path, scale] : adapters) options.adapters.push_back({path, scale});
  options.allowed_config_keys = allowed_keys;
  options.poll = poll_signals;
  return options;
}

LanguageModel open(const std::string& path, const std::string& tokenizer, int threads, const std::string& kv,
                   const std::string& compute, const std::vector<std::pair<std::string, double>>& adapters,
                   const std::vector<std::string>& allowed_keys) {
  const OpenOptions options = options_of(tokenizer, threads, kv, compute, adapters, allowed_keys);
  const nb::gil_scoped_release free;
  return LanguageModel::open(path, options);
}

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// Tensors, each with a type ("f32", "f16", "bf16"): one of bfloat16 arrives as integers of 16 bits.
LanguageModel from_tensors(const std::string& config, const nb::list& tensors, const std::string& tokenizer,
                           int threads, const std::string& kv, const std::string& compute) {
  const OpenOptions options = options_of(tokenizer, threads, kv, compute, {}, {});
  const std::shared_ptr<std::vector<AnyArray>> owner(new std::vector<AnyArray>(), [](std::vector<AnyArray>* p) {
    const nb::gil_scoped_acquire gil;
    delete p;
  });
  std::vector<StateTensor> all;
  for (const nb::handle entry : tensors) {
    const auto [name, type, array] = nb::cast<std::tuple<std::string, std::string, AnyArray>>(entry);
    StateTensor tensor{name, type == "f32" ? DType::f32 : type == "f16" ? DType::f16 : DType::bf16, {}, {}};
    for (std::size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    tensor.bytes = {static_cast<const std::byte*>(array.data()), array.nbytes()};
    owner->push_back(array);
    all.push_back(std::move(tensor));
  }
  const nb::gil_scoped_release free;
  return LanguageModel::from_tensors(config, all, owner, options);
}

/// (name, type, array) of each tensor; arrays share the model's memory. Those of f16 and bf16 are integers of 16 bits.
nb::list state(const LanguageModel& model) {
  std::vector<StateTensor> tensors;
  {
    const nb::gil_scoped_release free;
    tensors = model.state();
  }
  nb::list result;
  for (const StateTensor& tensor : tensors) {
    auto keeper = std::make_unique<std::shared_ptr<const void>>(tensor.owner);
    nb::capsule owner(keeper.get(), [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
    keeper.release();
    const std::vector<std::size_t> sizes(tensor.shape.begin(), tensor.shape.end());
    const void* const data = tensor.bytes.data();
    nb::object array;
    if (tensor.type == DType::f32) {
      array = nb::cast(
          nb::ndarray<nb::numpy, const float>(static_cast<const float*>(data), sizes.size(), sizes.data(), owner));
    } else {
      array = nb::cast(nb::ndarray<nb::numpy, const std::uint16_t>(static_cast<const std::uint16_t*>(data),
                                                                   sizes.size(), sizes.data(), owner));
    }
    const char* const type = tensor.type == DType::f32 ? "f32" : tensor.type == DType::f16 ? "f16" : "bf16";
    result.append(nb::make_tuple(tensor.name, type, array));
  }
  return result;
}

/// What generate and stream take.
GenerateOptions generate_options(const LanguageModel& model, const nb::dict& given) {
  GenerateOptions options;
  SamplingOverrides sampling;
  const auto get = [&]<class T>(const char* name, T& place) {
    if (given.contains(name)) place = nb::cast<T>(given[name]);
  };
  get("temperature", sampling.temperature);
  get("top_k", sampling.top_k);
  get("top_p", sampling.top_p);
  get("min_p", sampling.min_p);
  get("repeat_penalty", sampling.repeat_penalty);
  get("greedy", sampling.greedy);
  options.sampling = model.sampling(sampling);
  get("max_tokens", options.max_tokens);
  get("seed", options.seed);
  get("stop", options.stop);
  get("logprobs", options.n_logprobs);
  if (given.contains("hooks")) {
    options.watch = watch_of(nb::borrow(given["hooks"]), nb::cast<std::vector<std::string>>(given["hook_sites"]));
  }
  return options;
}

nb::object top_of(const std::vector<TokenLogprob>& top) {
  nb::list list;
  for (const TokenLogprob& t : top) list.append(nb::make_tuple(t.id, t.logprob));
  return list;
}

/// (text, ids, finish_reason, logprobs)
nb::tuple result_of(const GenerateResult& result) {
  nb::list logprobs;
  for (const TokenReport& t : result.logprobs) logprobs.append(nb::make_tuple(t.id, t.logprob, top_of(t.top)));
  const std::string reason(name_of(result.finish_reason));
  return nb::make_tuple(text_of(result.text), result.ids, reason, logprobs);
}

nb::tuple generate(const LanguageModel& model, const nb::object& prompt, const nb::dict& given) {
  const Prompt text = prompt_of(prompt);
  const GenerateOptions options = generate_options(model, given);
  GenerateResult result;
  {
    const nb::gil_scoped_release free;
    result = model.generate(text, options);
  }
  return result_of(result);
}

/// A text that grows as it is read.
struct Stepper {
  std::optional<TextStepper> text;
};

void open_stepper(Stepper* place, const LanguageModel& model, const nb::object& prompt, const nb::dict& given) {
  const Prompt text = prompt_of(prompt);
  const GenerateOptions options = generate_options(model, given);
  const nb::gil_scoped_release free;
  new (place) Stepper{model.stepper(text, options)};
}

nb::object next_of(Stepper& stepper) {
  if (!stepper.text) return nb::none();
  std::optional<std::string> piece;
  {
    const nb::gil_scoped_release free;
    piece = stepper.text->next();
  }
  return piece ? text_of(*piece) : nb::none();
}

nb::list predict(const LanguageModel& model, const nb::object& prompt, int top) {
  const Prompt text = prompt_of(prompt);
  std::vector<std::vector<TokenLogprob>> tops;
  {
    const nb::gil_scoped_release free;
    tops = model.predict(text, top);
  }
  nb::list result;
  for (const auto& entry : tops) result.append(top_of(entry));
  return result;
}

nb::object logits(const LanguageModel& model, const nb::object& prompt) {
  const std::vector<std::int32_t> ids = model.ids(prompt_of(prompt));
  const std::int64_t shape[] = {static_cast<std::int64_t>(ids.size()), model.vocab_size()};
  float* memory = nullptr;
  nb::object array = new_array(shape, memory);
  const nb::gil_scoped_release free;
  model.logits(ids, [&](std::int64_t position, std::span<const float> row) {
    std::copy(row.begin(), row.end(), memory + position * shape[1]);
  });
  return array;
}

/// The values of the sites, in the order of the forward, as (name, array).
nb::list trace(const LanguageModel& model, const nb::object& prompt, const std::vector<std::string>& sites,
               const std::vector<std::string>& writes, bool gradients, const nb::object& hooks,
               const std::vector<std::string>& hook_sites) {
  const Prompt text = prompt_of(prompt);
  TraceOptions options;
  options.sites = sites;
  options.writes = writes;
  options.gradients = gradients;
  options.watch = watch_of(hooks, hook_sites);
  std::vector<SiteValue> values;
  {
    const nb::gil_scoped_release free;
    values = model.trace(text, options);
  }
  nb::list result;
  for (SiteValue& value : values) {
    result.append(nb::make_tuple(value.name, array_of(std::move(value.values), value.shape)));
  }
  return result;
}

/// (loss, [(name, array)])
nb::tuple grad(const LanguageModel& model, const nb::object& prompt, const nb::object& hooks,
               const std::vector<std::string>& hook_sites) {
  const Prompt text = prompt_of(prompt);
  const Watch watch = watch_of(hooks, hook_sites);
  std::vector<NamedValue> values;
  double loss = 0;
  {
    const nb::gil_scoped_release free;
    loss = model.grad(
        text, [&](NamedValue value) { values.push_back(std::move(value)); }, watch);
  }
  nb::list list;
  for (NamedValue& value : values) {
    list.append(nb::make_tuple(value.name, array_of(std::move(value.values), value.shape)));
  }
  return nb::make_tuple(loss, list);
}

/// The most likely tokens of each row of logits.
nb::list top_of_rows(const nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>& rows, int n) {
  nb::list result;
  for (std::size_t row = 0; row < rows.shape(0); ++row) {
    result.append(top_of(top_logprobs({rows.data() + row * rows.shape(1), rows.shape(1)}, n)));
  }
  return result;
}

/// An array of bfloat16 for DLPack, over the memory of one of integers.
nb::ndarray<> bfloat16_of(const nb::ndarray<nb::ro, const std::uint16_t, nb::c_contig, nb::device::cpu>& bits,
                          const nb::object& owner) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < bits.ndim(); ++i) sizes.push_back(bits.shape(i));
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
  return {const_cast<void*>(static_cast<const void*>(bits.data())), sizes.size(), sizes.data(), owner, nullptr, type};
}

}  // namespace

void bind_model(nb::module_& m) {
  using nb::literals::operator""_a;
  nb::class_<LanguageModel> bound(m, "Model");
  bind_batch(bound);
  bound
      .def_static("open", &open, "path"_a, "tokenizer"_a, "threads"_a, "kv"_a, "compute"_a, "adapters"_a,
                  "allowed_keys"_a)
      .def_static("from_tensors", &from_tensors, "config"_a, "tensors"_a, "tokenizer"_a, "threads"_a, "kv"_a,
                  "compute"_a)
      .def_prop_ro("description", &LanguageModel::description)
      .def_prop_ro("vocab_size", &LanguageModel::vocab_size)
      .def_prop_ro("max_seq_len", &LanguageModel::max_seq_len)
      .def_prop_ro("d_model", &LanguageModel::d_model)
      .def_prop_ro("n_layers", &LanguageModel::n_layers)
      .def_prop_ro("config_json", &LanguageModel::config_json)
      .def("info_json",
           [](const LanguageModel& model) {
             const nb::gil_scoped_release free;
             return model.info_json();
           })
      .def(
          "ids", [](const LanguageModel& model, const nb::object& prompt) { return model.ids(prompt_of(prompt)); },
          "prompt"_a)
      .def("generate", &generate, "prompt"_a, "options"_a)
      .def("predict", &predict, "prompt"_a, "top"_a)
      .def("logits", &logits, "prompt"_a)
      .def("trace", &trace, "prompt"_a, "sites"_a, "writes"_a, "gradients"_a, "hooks"_a.none(), "hook_sites"_a)
      .def("grad", &grad, "prompt"_a, "hooks"_a.none(), "hook_sites"_a)
      .def("state", &state)
      .def(
          "save",
          [](const LanguageModel& model, const std::string& folder) {
            const nb::gil_scoped_release free;
            model.save(folder);
          },
          "folder"_a);
  nb::class_<Stepper>(m, "Stepper")
      .def("__init__", &open_stepper, "model"_a, "prompt"_a, "options"_a)
      .def("next", &next_of)
      .def("close", [](Stepper& stepper) { stepper.text.reset(); })
      .def("result", [](const Stepper& stepper) { return result_of(stepper.text.value().result()); });
  m.def("bfloat16_of", [](const nb::object& bits) {
    return bfloat16_of(nb::cast<nb::ndarray<nb::ro, const std::uint16_t, nb::c_contig, nb::device::cpu>>(bits), bits);
  });
  m.def("top_of_rows", &top_of_rows, "rows"_a, "n"_a);
}

}  // namespace vitrine::python
