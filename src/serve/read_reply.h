// A response from whole texts that a model reads at once: vectors, or outputs of a head.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/json.h"
#include "serve/pending_reply.h"
#include "serve/routes.h"

namespace vitrine {

/// The texts of a request, or its pairs of texts.
struct TextsToRead {
  std::vector<std::vector<std::int32_t>> ids, types{};  ///< As TextIds.
  std::vector<TextMarks> marks{};
  std::int64_t n_tokens = 0;
  std::optional<ModifierList> modifiers{};  ///< Absent: those of all requests.
};

class ReadReply : public PendingReply {
 public:
  using Values = std::vector<std::vector<float>>;
  /// Makes the response of the values of all texts.
  using Write = std::function<Json(const Values& values, const JobTimes& times)>;

  ReadReply(TextsToRead texts, const RouteRequest& from, TextTask::Read read, Write write)
      : n_tokens_(texts.n_tokens),
        task_(std::make_shared<TextTask>(from.client, std::move(texts.ids), std::move(texts.types),
                                         std::move(texts.modifiers), std::move(read), from.notify,
                                         std::move(texts.marks))),
        write_(std::move(write)) {}

  void submit(Scheduler& scheduler) override { scheduler.submit(task_); }
  void cancel() override { task_->cancel(); }
  JobTimes times() const override { return task_->times(); }
  Usage usage() const override { return {n_tokens_, 0, 0}; }
  bool take() override { return (values_ = task_->take()).has_value(); }
  bool has_ended() const override { return values_.has_value(); }
  HttpReply reply() override { return {200, json_text(write_(*values_, times()))}; }

 private:
  std::int64_t n_tokens_;
  std::shared_ptr<TextTask> task_;
  Write write_;
  std::optional<Values> values_;
};

}  // namespace vitrine
