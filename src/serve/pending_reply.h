// A response that needs work of the scheduler.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/completion_reply.h"
#include "serve/job.h"
#include "serve/scheduler.h"

namespace vitrine {

/// A response that is not streamed.
struct HttpReply {
  int status = 200;
  std::string body;
  const char* content_type = "application/json";
  std::chrono::seconds retry_after{};  ///< After which the client should try again, if it should.
};

/// The content type of server-sent events.
inline constexpr const char* kEventStream = "text/event-stream; charset=utf-8";

/// The connection submits the work, takes what it reports until it has ended, and cancels it, for whatever reason it
/// ends.
class PendingReply {
 public:
  PendingReply() = default;
  PendingReply(const PendingReply&) = delete;
  PendingReply& operator=(const PendingReply&) = delete;
  virtual ~PendingReply() = default;

  virtual void submit(Scheduler& scheduler) = 0;
  virtual void cancel() = 0;
  virtual JobTimes times() const = 0;
  virtual Usage usage() const = 0;
  /// Takes what the work has reported. Returns false if there is nothing. Throws the error of the work.
  virtual bool take() = 0;
  virtual bool has_ended() const = 0;
  /// The response, once the work has ended. Called where it keeps nobody waiting.
  virtual HttpReply reply() = 0;

  /// A stream has events instead: those of what has been taken. In between, a comment of server-sent events tells
  /// clients and proxies that the stream has not died, whenever it has been silent for so long; none: never.
  virtual bool streams() const { return false; }
  virtual const char* stream_type() const { return kEventStream; }
  virtual std::optional<std::chrono::seconds> silence() const { return std::nullopt; }
  virtual std::string events() { return ""; }
  virtual bool has_long_events() const { return false; }
};

/// The work is a Job.
class JobReply : public PendingReply {
 public:
  explicit JobReply(std::shared_ptr<Job> job) : results_(job->n_sequences()), job_(std::move(job)) {}

  void submit(Scheduler& scheduler) override {
    scheduler_ = &scheduler;
    scheduler.submit(job_);
  }
  void cancel() override { job_->cancel(); }
  JobTimes times() const override { return job_->times(); }
  bool take() override;
  bool has_ended() const override { return n_ended_ == results_.size(); }

 protected:
  std::vector<GenerateResult> results_;  ///< Unless it streams.
  std::vector<SequenceStep> steps_;      ///< Of a stream: what has been taken.
  std::size_t n_ended_ = 0;              ///< A stream counts them itself.

 private:
  std::shared_ptr<Job> job_;
  Scheduler* scheduler_ = nullptr;
};

}  // namespace vitrine
