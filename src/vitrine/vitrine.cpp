#include "vitrine/vitrine.h"

#include "base/checked.h"
#include "base/version.h"
#include "checkpoint/safetensors.h"
#include "generate/fim_prompt.h"
#include "generate/make_request.h"
#include "generate/score.h"
#include "hub/pull.h"
#include "report/features.h"
#include "report/model_facts.h"
#include "report/results.h"
#include "vitrine/opened_model.h"
#include "vitrine/site_watcher.h"

namespace vitrine {

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path, const TokenizerOptions& options,
                                                const std::function<void()>& poll) {
  HubAccess access;
  access.poll = poll;
  return load_tokenizer(local_path(path, HubWanted::tokenizer, access), options);
}

LanguageModel::LanguageModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

LanguageModel LanguageModel::open(const std::string& given, const OpenOptions& asked) {
  std::string path = given;
  const OpenOptions options = with_local_paths(path, asked);
  Checkpoint checkpoint = load_checkpoint(path, {options.allowed_config_keys, options.allowed_tensors});
  return LanguageModel(std::make_shared<const State>(path, std::move(checkpoint), options));
}

const std::string& LanguageModel::description() const { return state_->checkpoint.description; }
std::int64_t LanguageModel::vocab_size() const { return state_->checkpoint.model->config().vocab_size; }
std::int64_t LanguageModel::max_seq_len() const { return state_->checkpoint.model->config().max_seq_len; }
std::int64_t LanguageModel::d_model() const { return state_->checkpoint.model->config().d_model; }
std::int64_t LanguageModel::n_layers() const {
  return static_cast<std::int64_t>(state_->checkpoint.model->config().n_layers());
}
SamplingConfig LanguageModel::default_sampling() const { return choose_sampling({}, state_->defaults()).config; }

std::string LanguageModel::info_json() const {
  const State& s = *state_;
  return json_line(vitrine::info_json({.kv = s.kv_types, .adapters = s.applied.adapters},
                                      checkpoint_facts(s.checkpoint, s.model_path, s.compute)));
}
const std::string& LanguageModel::config_json() const { return state_->checkpoint.config; }

const Tokenizer& LanguageModel::tokenizer() const {
  if (!state_->tokenizer) std::rethrow_exception(state_->why_no_tokenizer);
  return *state_->tokenizer;
}

std::vector<std::int32_t> LanguageModel::ids(const Prompt& prompt) const {
  if (const auto* given = std::get_if<std::vector<std::int32_t>>(&prompt)) return *given;
  if (const auto* chat = std::get_if<Chat>(&prompt)) return state_->format_of(*chat).encode(history_of(*chat), {});
  return ids_or_bos(tokenizer().encode(std::get<std::string>(prompt), SpecialTokens::apply), state_->defaults(),
                    "prompt");
}

std::vector<std::int32_t> LanguageModel::target_ids(const std::string& text) const {
  const State& s = *state_;
  if (!s.checkpoint.model->config().encoder) {
    throw BadInput("target", "the model has no encoder, so it reads one text only");
  }
  tokenizer();  // throws if there is none
  return decoder_ids(s.defaults(), text, SpecialTokens::apply);
}

std::string LanguageModel::render(const Chat& chat) const { return state_->format_of(chat).text(history_of(chat), {}); }

std::vector<TokenLogprob> LanguageModel::next(const Prompt& prompt, int n, std::stop_token cancel) const {
  if (n < 1) throw BadInput("next", "expected a number of tokens of at least 1, got {}", n);
  state_->expect_no_encoder("next");
  GenerateRequest request;  // one greedy token and the n most likely ones
  request.prompt = ids(prompt);
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.n_logprobs = n;
  const Call call(*state_, std::move(cancel));
  return vitrine::generate(call.context(), {&request, 1})[0].logprobs[0].top;
}

std::vector<std::vector<TokenLogprob>> LanguageModel::predict(const Prompt& prompt, int n,
                                                              std::stop_token cancel) const {
  state_->expect_no_encoder("predict");
  std::vector<std::vector<TokenLogprob>> tops;
  const Call call(*state_, std::move(cancel));
  vitrine::predict(call.context(), ids(prompt), n,
                   [&](std::int64_t, const std::vector<TokenLogprob>& top) { tops.push_back(top); });
  return tops;
}

namespace {

/// The ids of a prompt whose continuation has a text after it.
std::vector<std::int32_t> ids_around(const ModelAccess::State& s, const Prompt& prompt, const std::string& suffix) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return fim_prompt(s.defaults(), *text, suffix, "suffix");
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) {
    return fim_prompt(s.defaults(), *ids, suffix, "suffix");
  }
  throw BadInput("suffix", "expected a text or ids before it, got a conversation");
}

}  // namespace

GenerateRequest ModelAccess::request_of(const LanguageModel& model, const Prompt& prompt,
                                        const GenerateOptions& options, std::vector<std::string>* from_checkpoint) {
  const State& s = state(model);
  std::vector<std::int32_t> ids = options.suffix ? ids_around(s, prompt, *options.suffix) : model.ids(prompt);
  GenerateRequest request = make_request(s.defaults(), std::move(ids), options, from_checkpoint);
  if (const auto* chat = std::get_if<Chat>(&prompt); chat != nullptr) {
    if (const auto id = s.format_of(*chat).end_of_answer()) request.stop_ids.push_back(*id);
  }
  return request;
}

GenerateResult LanguageModel::generate(const Prompt& prompt, const GenerateOptions& options,
                                       std::stop_token cancel) const {
  const State& s = *state_;
  const GenerateRequest request = ModelAccess::request_of(*this, prompt, options);
  StreamText stream;
  if (options.on_text) stream = [&](std::size_t, const std::string& text) { options.on_text(text); };
  SiteWatcher watcher(options.watch, s.layers());
  const Call call(s, std::move(cancel), watcher.is_watching() ? &watcher : nullptr);
  GenerateResult result = std::move(vitrine::generate(call.context(), {&request, 1}, stream)[0]);
  if (request.max_tokens > 0) watcher.check_all_met();
  return result;
}

/// One call that lasts as long as the text grows.
struct TextStepper::State {
  State(const LanguageModel& m, const Prompt& prompt, const GenerateOptions& options)
      : model(m),
        watcher(options.watch, ModelAccess::state(m).layers()),
        call(ModelAccess::state(m), {}, watcher.is_watching() ? &watcher : nullptr),
        engine(call.context()) {
    engine.add(ModelAccess::request_of(m, prompt, options));
  }

  LanguageModel model;
  SiteWatcher watcher;
  ModelAccess::Call call;
  Engine engine;
  std::optional<GenerateResult> result;
};

TextStepper LanguageModel::stepper(const Prompt& prompt, const GenerateOptions& options) const {
  if (options.on_text) throw BadInput("stepper", "expected no on_text: next() returns the text");
  return TextStepper(std::make_unique<TextStepper::State>(*this, prompt, options));
}

TextStepper::TextStepper(std::unique_ptr<State> state) : state_(std::move(state)) {}
TextStepper::TextStepper(TextStepper&&) noexcept = default;
TextStepper& TextStepper::operator=(TextStepper&&) noexcept = default;
TextStepper::~TextStepper() = default;

std::optional<std::string> TextStepper::next() {
  State& s = *state_;
  s.call.claim();
  std::string text;
  while (text.empty() && !s.engine.empty()) {
    for (SequenceStep& step : s.engine.step().sequences) {
      if (step.error) std::rethrow_exception(step.error);
      text += step.text;
      if (step.result) s.result = std::move(*step.result);
    }
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

const GenerateResult& TextStepper::result() const {
  if (!state_->result) throw BadInput("stepper", "the text has not ended");
  return *state_->result;
}

void LanguageModel::logits(const Prompt& prompt, const ReceiveLogits& receive, std::stop_token cancel) const {
  state_->expect_no_encoder("logits");
  const Call call(*state_, std::move(cancel));
  score(call.context(), ids(prompt), [&](std::int64_t first, const Tensor& rows) {
    for (std::int64_t row = 0; row < rows.rows(); ++row) receive(first + row, rows.row_range(row, 1).values());
  });
}

std::vector<float> LanguageModel::logits(const Prompt& prompt, std::stop_token cancel) const {
  std::vector<float> all;
  const auto append = [&](std::int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); };
  logits(prompt, append, std::move(cancel));
  return all;
}

std::string LanguageModel::features_json(const Prompt& prompt, std::size_t top, std::stop_token cancel) const {
  const State& s = *state_;
  s.expect_no_encoder("features");
  if (s.applied.dictionaries.empty()) throw BadInput("features", "the model was opened without dictionaries");
  const std::vector<std::int32_t> text = ids(prompt);
  const Call call(s, std::move(cancel));
  const std::vector<ActiveFeatures> all = read_features(call.context(), text, top);
  return json_line(vitrine::features_json(text, all, {0, std::ssize(text)}, top, s.tokenizer.get()));
}

struct Session::State {
  LanguageModel model;
  std::optional<KvCache> cache;  // empty after a call has failed
  SiteWatcher watcher;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session LanguageModel::session(const SessionOptions& options) const {
  if (options.capacity < 0) throw BadInput("session", "expected a capacity of at least 0, got {}", options.capacity);
  state_->expect_no_encoder("session");
  const Model& model = *state_->checkpoint.model;
  const std::int64_t capacity = options.capacity > 0 ? options.capacity : max_seq_len();
  return Session(std::make_unique<Session::State>(
      Session::State{*this, model.make_cache(capacity, state_->kv_types), {options.watch, state_->layers()}, {}, {}}));
}

void Session::feed(std::span<const std::int32_t> ids, std::stop_token cancel) {
  State& s = *state_;
  if (!s.cache) throw BadInput("session", "an earlier call has failed; begin another session");
  const LanguageModel::Call call(*s.model.state_, std::move(cancel), s.watcher.is_watching() ? &s.watcher : nullptr);
  check_feed(call.context(), *s.cache, ids);
  if (ids.empty()) return;
  std::optional<KvCache> cache = std::exchange(s.cache, std::nullopt);
  vitrine::feed(call.context(), *cache, ids, static_cast<std::int64_t>(ids.size()) - 1,
                [&](std::int64_t, const Tensor& row) { s.logits.assign(row.data, row.data + row.count()); });
  s.watcher.check_all_met();
  s.cache = std::move(cache);
  s.ids.insert(s.ids.end(), ids.begin(), ids.end());
}

void Session::feed(std::int32_t id, std::stop_token cancel) { feed({&id, 1}, std::move(cancel)); }
std::span<const float> Session::logits() const { return state_->logits; }
const std::vector<std::int32_t>& Session::ids() const { return state_->ids; }

void save_sites(const std::string& path, std::span<const SiteValue> sites) {
  constexpr std::int64_t kHeaderBytes = 100, kHeaderBytesPerSite = 120;
  std::int64_t header_bytes = kHeaderBytes;
  for (const SiteValue& site : sites) header_bytes += kHeaderBytesPerSite + static_cast<std::int64_t>(site.name.size());
  SafetensorsWriter writer(path, header_bytes);
  for (const SiteValue& site : sites) {
    if (checked_product(site.shape) != static_cast<std::int64_t>(site.values.size())) {
      throw BadInput(path, "{}: its shape does not fit {} values", site.name, site.values.size());
    }
    writer.begin(site.name, DType::f32, site.shape);
    writer.append(std::as_bytes(std::span(site.values)));
  }
  writer.commit();
}

}  // namespace vitrine
