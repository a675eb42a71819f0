// The models of a server: which there are, which are in memory, and who waits for one.
//
// A thread of the registry's own loads and unloads, one model at a time, while rounds go on. A model leaves when nobody
// has used it for its time to live, or when another one needs its memory: then the one that has not been asked for the
// longest. A model in use never leaves. If all are in use, those who wait are patient for a while; then no new use of
// the model that was asked for least recently begins, so that it can leave after the ones that it has.
#pragma once

#include <algorithm>
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
#include "serve/metrics.h"
#include "serve/request_fields.h"

namespace vitrine {

class RoundLoop;
class Scheduler;
struct ServedModel;

inline constexpr ErrorKind kModelTooLarge{400, "invalid_request_error", "model_too_large", true};
inline constexpr ErrorKind kLoadFailed{503, "server_error", "model_load_failed", true};
inline constexpr ErrorKind kNoSpace{503, "server_error", "model_no_space", true};

/// A model in memory, with all that its requests need. Destroyed after its scheduler has left the loop.
class LoadedModel {
 public:
  LoadedModel() = default;
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
  virtual ~LoadedModel() = default;

  virtual const ServedModel& served() const = 0;
  virtual const std::shared_ptr<Scheduler>& scheduler() const = 0;  ///< Not null.
};

/// What is known of a model without its weights.
struct ModelSummary {
  std::int64_t max_seq_len = 0, n_parameters = 0;
  std::int64_t bytes = 0;      ///< That its weights need in memory.
  std::string quantization{};  ///< The types of its weights, such as "bf16" or "q4_k, q6_k".
};

/// A model that can be served.
struct ModelEntry {
  std::string name;
  std::vector<std::string> aliases{};
  std::vector<std::string> adapters{};  ///< Those that it has when it is loaded.
  ModelSummary summary{};
  std::string error{};  ///< Why it has no summary; "": it has one. It can be asked for all the same.
  std::optional<std::chrono::duration<double>> ttl{};  ///< Else that of the registry. 0: it never leaves.
  bool preloads = false;                               ///< It is loaded without a request.
  /// On the registry's thread. Throws what becomes the error of those who wait.
  std::function<std::unique_ptr<LoadedModel>()> load{};
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();  ///< They outlive what is loaded.

  bool has_name(std::string_view given) const { return given == name || std::ranges::count(aliases, given) > 0; }
  /// What follows NAME: in a name, for a name or an alias of the model; "" if nothing does.
  std::string_view adapter_in(std::string_view given) const;
};

enum class ModelState : std::uint8_t { unloaded, loading, loaded, failed };
/// "unloaded", …
std::string_view name_of(ModelState state);

struct RegistryConfig {
  std::int64_t memory = 0;  ///< Bytes of loaded weights.
  std::chrono::duration<double> ttl = std::chrono::minutes(5);
  std::chrono::duration<double> patience = std::chrono::seconds(1);     ///< Before models in use are made to leave.
  std::chrono::duration<double> max_wait = std::chrono::minutes(5);     ///< For memory; then an error with Retry-After.
  std::chrono::duration<double> retry_time = std::chrono::seconds(10);  ///< Before a failed load is tried again.
  std::size_t max_queue = 4096;                                         ///< Wishes of a client that wait.
};

/// How a model stands.
struct ModelStatus {
  const ModelEntry* source = nullptr;
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

  /// Throws BadInput for a name or an alias that several models have, and if the models that are loaded without a
  /// request need more than the memory. The schedulers of loaded models run in `loop`,
  /// which must outlive this object.
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
  bool tell(Lock& lock);
  bool unload_idle(Lock& lock);
  bool serve_wishes(Lock& lock);
  bool make_room(Lock& lock, const Slot& wanted, ServerClock::time_point since);
  void load(Lock& lock, Slot& slot);
  void unload(Lock& lock, Slot& slot);
  void grant(Slot& slot);
  void answer(Slot& slot, const RequestError& error);
  void answer(std::shared_ptr<Wish> wish, const RequestError& error);
  void fail_large(Slot& slot);
  void fail_late(Slot& slot, ServerClock::time_point now);
  std::int64_t pinned_bytes() const;
  std::optional<ServerClock::time_point> next_time() const;
  Slot& slot_of(const ModelEntry& source) const;
  std::chrono::duration<double> ttl_of(const Slot& slot) const;
  Use use_of(Slot& slot, bool counts = true);

  const std::vector<ModelEntry> sources_;
  const RegistryConfig config_;
  RoundLoop& loop_;
  std::vector<std::unique_ptr<Slot>> slots_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_changed_ = false, has_ended_ = false;
  // They have news. What they own must not end under the mutex.
  std::vector<std::shared_ptr<Wish>> told_;
  std::thread thread_;
};

}  // namespace vitrine
