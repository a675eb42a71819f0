// The models of a server: which there are, which are in memory, and who waits for one.
//
// A thread of the registry's own loads and unloads, one model at a time, while rounds go on. A model leaves when nobody
// has used it for its time to live, or when another one needs its memory: then the one that has not been asked for the
// longest. A model in use never leaves. If all are in use, those who wait are patient for a while; then no new use of
// the model that was asked for least recently begins, so that it can leave after the ones that it has.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/job.h"
#include "serve/model_entry.h"
#include "serve/request_fields.h"

namespace vitrine {

class RoundLoop;

inline constexpr ErrorKind kModelTooLarge{400, "invalid_request_error", "model_too_large", true};
inline constexpr ErrorKind kLoadFailed{503, "server_error", "model_load_failed", true};
inline constexpr ErrorKind kNoSpace{503, "server_error", "model_no_space", true};

struct RegistryConfig {
  std::int64_t memory = 0;  ///< Bytes of loaded weights.
  std::chrono::duration<double> ttl = std::chrono::minutes(5);
  std::chrono::duration<double> patience = std::chrono::seconds(1);     ///< Before models in use are made to leave.
  std::chrono::duration<double> max_wait = std::chrono::minutes(5);     ///< For memory; then an error with Retry-After.
  std::chrono::duration<double> retry_time = std::chrono::seconds(10);  ///< Before a failed load is tried again.
  std::size_t max_queue = 4096;                                         ///< Wishes of a client that wait.
  std::function<void(const std::string&)> report{};  ///< Called on the registry's thread with lines for a log.
};

/// How a model stands.
struct ModelStatus {
  const ModelEntry* source = nullptr;
  ModelSummary summary{};
  ModelState state = ModelState::unloaded;
  std::string error;  ///< Of a load that failed, or of the summary; "": none.
  std::int64_t n_uses = 0, n_loads = 0, n_unloads = 0;
  std::int64_t created = 0;                     ///< Unix time at which it was loaded last; 0: never.
  std::optional<std::chrono::seconds> stays{};  ///< Until it leaves, if it is loaded and nobody asks for it.
};

class ModelRegistry {
  struct Slot;

 public:
  /// As long as it exists, the model is in memory.
  class Use {
   public:
    const LoadedModel& model() const;

   private:
    friend class ModelRegistry;
    struct End {
      ModelRegistry* registry;
      bool counts;  // for the time to live
      void operator()(Slot* slot) const;
    };
    explicit Use(std::unique_ptr<Slot, End> slot) : slot_(std::move(slot)) {}
    std::unique_ptr<Slot, End> slot_;
  };

  /// Somebody waits for a model, until the wish is destroyed.
  class Wish {
   public:
    /// A use once the model is loaded, which can be taken once. Throws RequestError: kModelTooLarge with both numbers,
    /// kLoadFailed with the error of the load, kNoSpace after max_wait.
    std::optional<Use> take();

   private:
    friend class ModelRegistry;
    std::mutex mutex_;
    std::optional<Use> use_;
    std::optional<RequestError> error_;
    std::size_t client_ = 0;
    ServerClock::time_point since_ = ServerClock::now();
    std::function<void()> notify_;
  };

  /// Throws BadInput for a name or an alias that several models have or that is MODEL:ADAPTER of another one, and if
  /// the models that are loaded without a request need more than the memory. The schedulers of loaded models run in
  /// `loop`, which must outlive this object.
  ModelRegistry(std::vector<ModelEntry> sources, const RegistryConfig& config, RoundLoop& loop);
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;
  /// Waits for the model that is being loaded. All uses must have ended.
  ~ModelRegistry();

  std::size_t size() const { return sources_.size(); }
  /// The names and aliases of all models.
  std::vector<std::string> names() const;
  /// The model of this name or alias, or with this name in front of :ADAPTER; "": the first. Null if there is none.
  const ModelEntry* find(std::string_view name) const;
  /// Waits for a model of find(). `notify` is called on any thread when the wish has news. Throws RequestError if the
  /// client has too many wishes that wait.
  std::shared_ptr<Wish> wish(const ModelEntry& source, std::size_t client, std::function<void()> notify);
  /// A use of a model that is in memory, to look at it: it does not count as a request.
  std::optional<Use> look_at(const ModelEntry& source);
  /// Lets a model leave as soon as nobody uses it. Returns whether it is in memory or on its way there.
  bool unload(const ModelEntry& source);

  /// In the order of the sources.
  std::vector<ModelStatus> list() const;
  ModelStatus status(const ModelEntry& source) const;
  /// Whether those that are to be loaded without a request have been.
  bool is_ready() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void check_sources() const;
  void check_names(const ModelEntry& source) const;
  bool tell(Lock& lock);
  void report(Lock& lock, const std::string& text);
  bool unload_idle(Lock& lock);
  bool serve_wishes(Lock& lock);
  void update(Slot& slot, ServerClock::time_point now);
  bool make_room(Lock& lock, const Slot& wanted);
  Slot* next_to_load(ServerClock::time_point now);
  void prepare(Slot& slot);
  bool end_preparation(Lock& lock, Slot& slot);
  void load(Lock& lock, Slot& slot);
  void fail(Lock& lock, Slot& slot, const std::exception& error);
  void unload(Lock& lock, Slot& slot);
  void grant(Slot& slot);
  void answer(Slot& slot, const RequestError& error);
  void answer(std::shared_ptr<Wish> wish, const RequestError& error);
  void fail_large(Slot& slot, std::int64_t memory);
  void fail_late(Slot& slot, ServerClock::time_point now);
  std::int64_t pinned_bytes() const;
  std::optional<ServerClock::time_point> next_time() const;
  Slot& slot_of(const ModelEntry& source) const;
  std::chrono::duration<double> ttl_of(const Slot& slot) const;
  Use use_of(Slot& slot, bool counts = true);

  const std::vector<ModelEntry> sources_;
  const RegistryConfig config_;
  RoundLoop& loop_;
  const ServerClock::time_point begun_ = ServerClock::now();
  std::vector<std::unique_ptr<Slot>> slots_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_changed_ = false, has_ended_ = false;
  // They have news. What they own must not end under the mutex.
  std::vector<std::shared_ptr<Wish>> told_;
  std::thread thread_;
};

}  // namespace vitrine
