#include "vitrine/vitrine.h"

#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/adapter.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "generate/choose_sampling.h"
#include "generate/generator.h"
#include "generate/score.h"
#include "inspect/recorder.h"
#include "model/check_compute.h"
#include "vitrine/chat_reader.h"
#include "vitrine/site_watcher.h"

namespace vitrine {
namespace {

/// The thread pools of a model. Each call takes one and returns it at the end. At most kMaxPools pools have workers. If
/// all of them are in use, a call gets a pool without workers instead of waiting, because it may have been made by a
/// callback of the call for which it would wait.
class PoolShelf {
 public:
  static constexpr std::size_t kMaxPools = 4;

  explicit PoolShelf(int n_threads) : n_threads_(n_threads) {  // creates a pool, to check n_threads now
    free_.reserve(kMaxPools);
    put(take());
  }

  std::unique_ptr<ThreadPool> take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<ThreadPool> pool = std::move(free_.back());
      free_.pop_back();
      return pool;
    }
    if (n_created_ == kMaxPools) return std::make_unique<ThreadPool>(1);
    auto pool = std::make_unique<ThreadPool>(n_threads_);
    ++n_created_;
    return pool;
  }
  void put(std::unique_ptr<ThreadPool> pool) noexcept {
    const std::lock_guard lock(mutex_);
    if (pool->size() == n_threads_ && free_.size() < kMaxPools) free_.push_back(std::move(pool));
  }

 private:
  const int n_threads_;
  std::mutex mutex_;
  std::size_t n_created_ = 0;
  std::vector<std::unique_ptr<ThreadPool>> free_;
};

/// The model's tokenizer, or null and the reason why there is none.
std::unique_ptr<const Tokenizer> find_tokenizer(const std::string& path, const std::string& own,
                                                const OpenOptions& options, std::exception_ptr& why_none) {
  if (!options.tokenizer.empty()) return load_tokenizer(options.tokenizer, options.tokenizer_options);
  try {
    if (own.empty()) throw BadInput(path, "holds no tokenizer; open it with one, or give ids in place of a text");
    return load_tokenizer(own, options.tokenizer_options);
  } catch (const BadInput&) {
    why_none = std::current_exception();
  } catch (const Unsupported&) {
    why_none = std::current_exception();
  }
  return nullptr;
}

}  // namespace

struct LanguageModel::State {
  State(const std::string& path, const OpenOptions& options)
      : model_path(path),
        chat_template(options.chat_template),
        checkpoint(load_checkpoint(path, {options.allowed_config_keys})),
        tokenizer(find_tokenizer(path, checkpoint.tokenizer_path, options, why_no_tokenizer)),
        kv_types(options.kv_types),
        compute(options.compute),
        pools(options.threads == 0 ? default_thread_count() : options.threads) {
    check_compute(*checkpoint.model, compute);
    std::unique_ptr<ThreadPool> pool = pools.take();
    for (const OpenAdapter& given : options.adapters) {
      if (!std::isfinite(given.scale)) throw BadInput(given.path, "expected a finite scale, got {}", given.scale);
      adapters.push_back(load_adapter(given.path, checkpoint, *pool));
      applied.push_back({adapters.back().get(), given.scale});
    }
    pools.put(std::move(pool));
  }

  /// Of the model's templates, which are read when they are first needed.
  ChatFormat format_of(const Chat& chat) const {
    if (!tokenizer) std::rethrow_exception(why_no_tokenizer);
    std::call_once(has_templates, [this] { templates = open_chat_templates(model_path, chat_template); });
    return vitrine::format_of(chat, templates, *tokenizer, model_path);
  }

  std::string model_path, chat_template;
  std::exception_ptr why_no_tokenizer;
  Checkpoint checkpoint;
  std::unique_ptr<const Tokenizer> tokenizer;
  KvTypes kv_types;
  Compute compute;
  mutable PoolShelf pools;
  std::vector<std::shared_ptr<const Adapter>> adapters;
  std::vector<AppliedAdapter> applied;
  mutable std::once_flag has_templates;
  mutable ChatTemplates templates;
};

/// The pool, the stop flag and the taps of one call.
class LanguageModel::Call {
 public:
  Call(const State& state, std::stop_token cancel, Taps* taps = nullptr)
      : pools_(state.pools),
        pool_(pools_.take()),
        on_cancel_(std::move(cancel), RaiseFlag{&stop_}),
        context_{state.checkpoint.model.get(),
                 pool_.get(),
                 &default_kernels(),
                 state.tokenizer.get(),
                 state.kv_types,
                 &stop_,
                 taps} {
    context_.compute = state.compute;
    context_.adapters = state.applied;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { pools_.put(std::move(pool_)); }

  const GenerateContext& context() const { return context_; }

 private:
  struct RaiseFlag {
    std::atomic<bool>* flag;
    void operator()() const { *flag = true; }
  };

  PoolShelf& pools_;
  std::unique_ptr<ThreadPool> pool_;
  std::atomic<bool> stop_ = false;
  std::stop_callback<RaiseFlag> on_cancel_;
  GenerateContext context_;
};

LanguageModel::LanguageModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

LanguageModel LanguageModel::open(const std::string& path, const OpenOptions& options) {
  return LanguageModel(std::make_shared<const State>(path, options));
}

const std::string& LanguageModel::description() const { return state_->checkpoint.description; }
std::int64_t LanguageModel::vocab_size() const { return state_->checkpoint.model->config().vocab_size; }
std::int64_t LanguageModel::max_seq_len() const { return state_->checkpoint.model->config().max_seq_len; }
std::int64_t LanguageModel::d_model() const { return state_->checkpoint.model->config().d_model; }
std::int64_t LanguageModel::n_layers() const {
  return static_cast<std::int64_t>(state_->checkpoint.model->config().blocks.size());
}
SamplingConfig LanguageModel::default_sampling() const {
  return choose_sampling({}, state_->checkpoint.generation).config;
}

const Tokenizer& LanguageModel::tokenizer() const {
  if (!state_->tokenizer) std::rethrow_exception(state_->why_no_tokenizer);
  return *state_->tokenizer;
}

std::vector<std::int32_t> LanguageModel::ids(const Prompt& prompt) const {
  if (const auto* given = std::get_if<std::vector<std::int32_t>>(&prompt)) return *given;
  if (const auto* chat = std::get_if<Chat>(&prompt)) return state_->format_of(*chat).encode(history_of(*chat), true);
  std::vector<std::int32_t> result = tokenizer().encode(std::get<std::string>(prompt), SpecialTokens::apply);
  if (result.empty()) {
    const auto bos = tokenizer().bos() ? tokenizer().bos() : state_->checkpoint.bos_id;
    if (!bos) throw BadInput("prompt", "the text is empty and the model has no BOS to start from");
    result = {*bos};
  }
  return result;
}

std::string LanguageModel::render(const Chat& chat) const {
  return state_->format_of(chat).text(history_of(chat), true);
}

std::vector<TokenLogprob> LanguageModel::next(const Prompt& prompt, int n, std::stop_token cancel) const {
  if (n < 1) throw BadInput("next", "expected a number of tokens of at least 1, got {}", n);
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
  std::vector<std::vector<TokenLogprob>> tops;
  const Call call(*state_, std::move(cancel));
  vitrine::predict(call.context(), ids(prompt), n,
                   [&](std::int64_t, const std::vector<TokenLogprob>& top) { tops.push_back(top); });
  return tops;
}

GenerateResult LanguageModel::generate(const Prompt& prompt, const GenerateOptions& options,
                                       std::stop_token cancel) const {
  const State& s = *state_;
  GenerateRequest request;
  request.prompt = ids(prompt);
  request.max_tokens = options.max_tokens;
  request.sampling = options.sampling.value_or(default_sampling());
  request.seed = options.seed;
  request.stop_ids = stop_ids(s.checkpoint, s.tokenizer.get());
  if (const auto* chat = std::get_if<Chat>(&prompt)) {
    if (const auto id = s.format_of(*chat).end_of_answer()) request.stop_ids.push_back(*id);
  }
  request.stop_strings = options.stop;
  request.n_logprobs = options.n_logprobs;
  StreamText stream;
  if (options.on_text) stream = [&](std::size_t, const std::string& text) { options.on_text(text); };
  SiteWatcher watcher(options.watch, s.checkpoint.model->config());
  const Call call(s, std::move(cancel), options.watch.function ? &watcher : nullptr);
  GenerateResult result = std::move(vitrine::generate(call.context(), {&request, 1}, stream)[0]);
  if (options.max_tokens > 0) watcher.check_all_met();
  return result;
}

void LanguageModel::logits(const Prompt& prompt, const ReceiveLogits& receive, std::stop_token cancel) const {
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

std::vector<SiteValue> LanguageModel::trace(const Prompt& prompt, const TraceOptions& options,
                                            std::stop_token cancel) const {
  std::vector<SiteWrite> writes;
  for (const std::string& text : options.writes) writes.push_back(parse_site_write(text));
  std::vector<SiteValue> seen;
  const auto keep = [&](const SiteId& id, const Tensor& value) {
    const auto sizes = value.shape.sizes();
    const auto values = value.values();
    seen.push_back({name_of(id), {sizes.begin(), sizes.end()}, {values.begin(), values.end()}});
  };
  Recorder recorder(options.sites, std::move(writes), site_layers(state_->checkpoint.model->config()), keep);

  const std::vector<std::int32_t> tokens = ids(prompt);
  const auto n_rows = static_cast<std::int64_t>(tokens.size());
  const Call call(*state_, std::move(cancel), &recorder);
  Arena arena;
  Pass pass = call.context().make_pass(arena, {{0, n_rows, 0, nullptr}});
  pass.logits = {LogitRequest::Rows::range, 0, n_rows, {}};
  call.context().forward(pass, tokens);
  recorder.check_all_met();
  return seen;
}

struct Session::State {
  LanguageModel model;
  std::optional<KvCache> cache;  // empty after a call has failed
  SiteWatcher watcher;
  bool is_watched;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session LanguageModel::session(const SessionOptions& options) const {
  if (options.capacity < 0) throw BadInput("session", "expected a capacity of at least 0, got {}", options.capacity);
  const Model& model = *state_->checkpoint.model;
  const std::int64_t capacity = options.capacity > 0 ? options.capacity : max_seq_len();
  return Session(std::make_unique<Session::State>(Session::State{*this,
                                                                 model.make_cache(capacity, state_->kv_types),
                                                                 {options.watch, model.config()},
                                                                 static_cast<bool>(options.watch.function),
                                                                 {},
                                                                 {}}));
}

void Session::feed(std::span<const std::int32_t> ids, std::stop_token cancel) {
  State& s = *state_;
  if (!s.cache) throw BadInput("session", "an earlier call has failed; begin another session");
  const LanguageModel::Call call(*s.model.state_, std::move(cancel), s.is_watched ? &s.watcher : nullptr);
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
