// The C interface over vitrine.h. Exceptions end here, as a code and a line.
#include "capi/vitrine_c.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "base/error.h"
#include "capi/options.h"
#include "generate/read_option.h"
#include "report/model_facts.h"
#include "report/results.h"
#include "vitrine/opened_model.h"

/// What a handle of the C interface refers to.
struct vitrine_model {
  vitrine::LanguageModel model;
};

namespace {

using namespace vitrine;

thread_local std::string g_error;

/// Thrown if a callback ends a call. Not a std::exception, so that nothing in between catches it as one.
struct Stopped {};

int fail(int code, const char* message) noexcept {
  try {
    g_error = message;
  } catch (const std::bad_alloc&) {
    g_error.clear();
  }
  return code;
}

/// Runs a call. Returns its code.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return VITRINE_DONE;
  } catch (const Stopped&) {
    return fail(VITRINE_STOPPED, "stopped by a callback");
  } catch (const BadInput& e) {
    return fail(VITRINE_BAD_INPUT, e.what());
  } catch (const BadCheckpoint& e) {
    return fail(VITRINE_BAD_CHECKPOINT, e.what());
  } catch (const Unsupported& e) {
    return fail(VITRINE_UNSUPPORTED, e.what());
  } catch (const OutOfCapacity& e) {
    return fail(VITRINE_OUT_OF_CAPACITY, e.what());
  } catch (const std::bad_alloc&) {
    return fail(VITRINE_OUT_OF_CAPACITY, "[memory] not enough memory");
  } catch (const std::exception& e) {
    return fail(VITRINE_INTERNAL, e.what());
  } catch (...) {
    return fail(VITRINE_INTERNAL, "[vitrine] an unknown error");
  }
}

void check(const void* argument, const char* name) {
  if (argument == nullptr) throw BadInput(name, "expected a pointer, got NULL");
}

void go_on(int answer) {
  if (answer != 0) throw Stopped();
}

/// A copy for the caller, who frees it; with a 0 byte after it.
template <class T>
T* copied(const T* from, std::size_t n) {
  void* const memory = std::malloc(n * sizeof(T) + 1);
  if (memory == nullptr) throw std::bad_alloc();
  if (n > 0) std::memcpy(memory, from, n * sizeof(T));
  static_cast<char*>(memory)[n * sizeof(T)] = 0;
  return static_cast<T*>(memory);
}

char* copied(const std::string& text) { return copied(text.data(), text.size()); }

const LanguageModel& model_of(const vitrine_model* model) {
  check(model, "model");
  return model->model;
}

std::vector<std::int32_t> ids_of(const std::int32_t* ids, std::size_t n) {
  if (n > 0) check(ids, "ids");
  return n == 0 ? std::vector<std::int32_t>() : std::vector<std::int32_t>(ids, ids + n);
}

OpenOptions open_options(const char* json) {
  CallOptions options(json);
  OpenOptions open;
  open.threads = options.whole<int>("threads", 1, 1024).value_or(0);
  open.tokenizer = options.text("tokenizer").value_or("");
  open.tokenizer_options.pattern = options.text("pattern").value_or("");
  open.tokenizer_options.source_lang = options.text("source_lang").value_or("");
  open.allowed_config_keys = options.texts("allow_config_key");
  open.allowed_tensors = options.texts("allow_tensor");
  for (const std::string& text : options.texts("adapter")) open.adapters.push_back(adapter_of(text));
  for (const std::string& text : options.texts("control")) open.controls.push_back(control_of(text));
  for (const std::string& text : options.texts("sae")) open.dictionaries.push_back(dictionary_of(text));
  const std::string use = options.text("sae_use").value_or("");
  open.dictionary_use = dictionary_use_named(use).value_or(DictionaryUse::automatic);
  if (!use.empty() && !dictionary_use_named(use)) {
    throw BadInput("options", "sae_use: expected read, error or replace, got {}", use);
  }
  open.skipped_tokens = options.text("sae_skip").value_or("");
  const std::string kv = options.text("kv").value_or("f32");
  const auto types = kv_types_named(kv);
  if (!types) {
    throw BadInput("options", "kv: expected f32, bf16, f16, int8, int4, or two of them as in int8:int4, got {}", kv);
  }
  open.kv_types = *types;
  const std::string name = options.text("compute").value_or("auto");
  const std::optional<Compute> compute = compute_named(name);
  if (!compute) throw BadInput("options", "compute: expected auto, f32, int8 or bf16, got {}", name);
  open.compute = *compute;
  options.finish();
  return open;
}

/// The options of vitrine_generate().
GenerateOptions generate_options(const char* json) {
  CallOptions given(json);
  GenerateOptions options;
  for (const OptionRow& row : option_rows()) {
    if (row.is_in(kInC)) read_option(given, row.name, row, row.range, options);
  }
  given.finish();
  if (!options.seed) options.seed = std::random_device{}();
  return options;
}

/// What the decoder of an encoder–decoder reads: the option `target_ids`, or `target`, a text.
std::vector<std::int32_t> target_of(const LanguageModel& model, CallOptions& options) {
  const auto ids = options.get<std::vector<std::int32_t>>("target_ids", "a list of ids");
  const std::optional<std::string> text = options.text("target");
  if (ids && text) throw BadInput("options", "target: expected target or target_ids, got both");
  if (ids) return *ids;
  return text ? model.target_ids(*text) : std::vector<std::int32_t>();
}

}  // namespace

extern "C" {

int vitrine_open(const char* path, const char* options, vitrine_model** model) {
  return guarded([&] {
    check(model, "model");
    *model = nullptr;
    check(path, "path");
    *model = std::make_unique<vitrine_model>(vitrine_model{LanguageModel::open(path, open_options(options))}).release();
  });
}

void vitrine_close(vitrine_model* model) { delete model; }

int vitrine_info(const vitrine_model* model, char** json) {
  return guarded([&] {
    check(json, "json");
    *json = nullptr;
    *json = copied(model_of(model).info_json());
  });
}

int vitrine_encode(const vitrine_model* model, const char* text, size_t bytes, const char* options, int32_t** ids,
                   size_t* n) {
  return guarded([&] {
    check(ids, "ids");
    check(n, "n");
    *ids = nullptr;
    *n = 0;
    if (bytes > 0) check(text, "text");
    CallOptions given(options);
    const bool no_special = given.flag("no_special").value_or(false);
    given.finish();
    const std::string string = bytes == 0 ? std::string() : std::string(text, bytes);
    const LanguageModel& m = model_of(model);
    std::vector<std::int32_t> result = no_special ? m.tokenizer().encode(string, SpecialTokens::none) : m.ids(string);
    *ids = copied(result.data(), result.size());
    *n = result.size();
  });
}

int vitrine_decode(const vitrine_model* model, const int32_t* ids, size_t n, char** text, size_t* bytes) {
  return guarded([&] {
    check(text, "text");
    *text = nullptr;
    if (bytes != nullptr) *bytes = 0;
    const std::string result = model_of(model).tokenizer().target().decode(ids_of(ids, n));
    *text = copied(result);
    if (bytes != nullptr) *bytes = result.size();
  });
}

int vitrine_generate(const vitrine_model* model, const int32_t* ids, size_t n, const char* options,
                     int (*on_text)(void* user, const char* text, size_t bytes), void* user, char** json) {
  return guarded([&] {
    if (json != nullptr) *json = nullptr;
    const ModelAccess::State& s = ModelAccess::state(model_of(model));
    std::vector<std::string> from_checkpoint;
    const GenerateRequest request =
        ModelAccess::request_of(model->model, ids_of(ids, n), generate_options(options), &from_checkpoint);
    const ModelAccess::Call call(s, {});
    StreamText stream;
    if (on_text != nullptr) {
      stream = [&](std::size_t, const std::string& text) { go_on(on_text(user, text.data(), text.size())); };
    }
    GenerateTimings timings;
    const GenerateResult result = generate(call.context(), {&request, 1}, stream, &timings)[0];
    if (json == nullptr) return;
    *json = copied(json_line(generate_json(request, from_checkpoint, result, timings, s.tokenizer.get())));
  });
}

int vitrine_logits(const vitrine_model* model, const int32_t* ids, size_t n,
                   int (*on_row)(void* user, int64_t position, const float* row, size_t vocab), void* user) {
  return guarded([&] {
    const LanguageModel& m = model_of(model);
    if (on_row == nullptr) throw BadInput("on_row", "expected a function, got NULL");
    m.logits(ids_of(ids, n), [&](std::int64_t position, std::span<const float> row) {
      go_on(on_row(user, position, row.data(), row.size()));
    });
  });
}

int vitrine_run(const vitrine_model* model, const int32_t* ids, size_t n, const char* options,
                int (*on_site)(void* user, const char* name, const int64_t* shape, size_t rank, const float* value,
                               float* replacement),
                void* user) {
  return guarded([&] {
    const LanguageModel& m = model_of(model);
    if (on_site == nullptr) throw BadInput("on_site", "expected a function, got NULL");
    CallOptions given(options);
    TraceOptions trace;
    trace.sites = {""};  // the function sees the values
    trace.watch.sites = given.texts("sites");
    trace.writes = given.texts("writes");
    trace.target = target_of(m, given);
    given.finish();
    trace.watch.tap = [&](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
                          std::span<float> replacement) {
      const int answer = on_site(user, name.c_str(), shape.data(), shape.size(), value.data(), replacement.data());
      if (answer != 1) go_on(answer);
      return answer == 1;
    };
    m.trace(ids_of(ids, n), trace);
  });
}

int vitrine_features(const vitrine_model* model, const int32_t* ids, size_t n, const char* options, char** json) {
  return guarded([&] {
    check(json, "json");
    *json = nullptr;
    const LanguageModel& m = model_of(model);
    CallOptions given(options);
    const auto top = given.whole<std::size_t>("top", 1).value_or(5);
    given.finish();
    *json = copied(m.features_json(ids_of(ids, n), top));
  });
}

int vitrine_grad(const vitrine_model* model, const int32_t* ids, size_t n,
                 int (*on_gradient)(void* user, const char* name, const int64_t* shape, size_t rank,
                                    const float* value),
                 void* user, double* loss) {
  return guarded([&] {
    const LanguageModel& m = model_of(model);
    if (on_gradient == nullptr) throw BadInput("on_gradient", "expected a function, got NULL");
    ModelAccess::state(m).expect_no_encoder("grad");
    const double found = m.grad(ids_of(ids, n), [&](const NamedValue& g) {
      go_on(on_gradient(user, g.name.c_str(), g.shape.data(), g.shape.size(), g.values.data()));
    });
    if (loss != nullptr) *loss = found;
  });
}

int vitrine_train(const char* config_path, const char* options, int (*on_step)(void* user, const char* json),
                  void* user, char** json) {
  return guarded([&] {
    if (json != nullptr) *json = nullptr;
    check(config_path, "config_path");
    CallOptions given(options);
    TrainOptions train;
    train.threads = given.whole<int>("threads", 1, 1024).value_or(0);
    train.seed = given.whole<std::uint64_t>("seed", 0);
    train.tokenizer = given.text("tokenizer").value_or("");
    train.resume = given.flag("resume").value_or(false);
    given.finish();
    TrainingRun run = TrainingRun::open(config_path, train);
    while (const auto step = run.step()) {
      if (on_step == nullptr || on_step(user, json_line(progress_json(*step)).c_str()) == 0) continue;
      run.finish();
      throw Stopped();
    }
    const TrainResult result = run.finish();
    if (json != nullptr) *json = copied(json_line(train_json(result)));
  });
}

void vitrine_free(void* result) { std::free(result); }
const char* vitrine_error(void) { return g_error.c_str(); }
const char* vitrine_version(void) {
  static const std::string text = version();
  return text.c_str();
}
int vitrine_abi(void) { return 1; }

}  // extern "C"
