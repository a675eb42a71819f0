// What a handle of a model refers to, and what one call on it uses.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/caller_poll.h"
#include "base/error.h"
#include "generate/generator.h"
#include "generate/open_model.h"
#include "inspect/recorder.h"
#include "vitrine/chat_reader.h"
#include "vitrine/pool_shelf.h"
#include "vitrine/vitrine.h"

namespace vitrine {

/// The caller's memory `[n_rows, vocab_size]` for logits; no data if it is empty. Throws BadInput for another size.
Tensor memory_of_logits(std::span<float> logits, std::int64_t n_rows, std::int64_t vocab_size);

/// A model in training. Steps change its parameters, calls read them.
struct TrainedModel {
  virtual ~TrainedModel() = default;
  virtual DType dtype() const = 0;
  virtual void save(const std::string& folder) = 0;

  std::shared_mutex changes;  ///< Exclusive during a step.
};

struct LanguageModel::State : OpenedModel {
  /// `path` names the model in errors.
  State(const std::string& path, Checkpoint opened, const OpenOptions& options)
      : model_path(path),
        chat_template(options.chat_template),
        kv_types(options.kv_types),
        poll(options.poll),
        pools(options.threads == 0 ? default_thread_count() : options.threads) {
    std::unique_ptr<ThreadPool> pool = pools.take();
    static_cast<OpenedModel&>(*this) = open_checkpoint(path, std::move(opened), options, true, *pool);
    pools.put(std::move(pool));
  }

  /// Throws Unsupported for an encoder–decoder, in calls that take one text.
  void expect_no_encoder(const char* where) const {
    if (checkpoint.model->config().encoder) {
      throw Unsupported(where, "expected a model without an encoder: this call takes no text for a decoder");
    }
  }

  /// Of the sites of the model and its dictionaries.
  SiteLayers layers() const { return site_layers(checkpoint.model->config(), applied.dictionaries); }

  /// Of the model's templates, which are read when they are first needed.
  ChatFormat format_of(const Chat& chat) const {
    if (!tokenizer) std::rethrow_exception(why_no_tokenizer);
    std::call_once(has_templates, [this] { templates = open_chat_templates(model_path, chat_template); });
    return vitrine::format_of(chat, templates, *tokenizer, model_path);
  }

  std::string model_path, chat_template;
  KvTypes kv_types;
  std::function<void()> poll;
  mutable PoolShelf pools;
  mutable std::once_flag has_templates;
  mutable ChatTemplates templates;
  std::shared_ptr<TrainedModel> training{};  // of a model in training; else null
};

/// The pool, the stop flag and the taps of one call.
class LanguageModel::Call {
 public:
  Call(const State& state, std::stop_token cancel, Taps* taps = nullptr)
      : unchanged_(state.training ? std::shared_lock(state.training->changes) : std::shared_lock<std::shared_mutex>()),
        pools_(state.pools),
        poll_(state.poll),
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
    context_.modifiers = state.applied;
    if (state.poll) context_.poll = &poll_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { pools_.put(std::move(pool_)); }

  const GenerateContext& context() const { return context_; }
  ThreadPool& pool() const { return *pool_; }
  void claim() { poll_.claim(); }  ///< The calling thread goes on with the call.

 private:
  struct RaiseFlag {
    std::atomic<bool>* flag;
    void operator()() const { *flag = true; }
  };

  std::shared_lock<std::shared_mutex> unchanged_;  // the parameters, in training
  PoolShelf& pools_;
  CallerPoll poll_;
  std::unique_ptr<ThreadPool> pool_;
  std::atomic<bool> stop_ = false;
  std::stop_callback<RaiseFlag> on_cancel_;
  GenerateContext context_;
};

/// For modules over the library's interface.
struct ModelAccess {
  using State = LanguageModel::State;
  using Call = LanguageModel::Call;
  static const State& state(const LanguageModel& model) { return *model.state_; }
  /// As make_request(); what ends an answer also ends the text that follows a conversation.
  static GenerateRequest request_of(const LanguageModel& model, const Prompt& prompt, const GenerateOptions& options,
                                    std::vector<std::string>* from_checkpoint = nullptr);
};

}  // namespace vitrine
