// Requests for what a model makes of whole texts: vectors, or outputs of a head. Texts of several requests share
// passes.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generate/encode.h"
#include "generate/read_texts.h"
#include "serve/job.h"

namespace vitrine {

/// What is made of each text.
struct TextReading {
  /// Passes the values of all texts to `receive`.
  using Read = std::function<void(const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive)>;

  /// Readings of the same kind make the same values of a text, so their texts share passes. "": it shares none.
  std::string kind;
  Read read;
};

/// The texts of a request on the way to the scheduler, the values on the way out. Shared by the scheduler, which runs
/// it, and by the thread that answers the client.
class TextTask {
 public:
  /// `client`: the number of its API key. Types of tokens and marks may be empty (TextIds). Without `modifiers` they
  /// are those of the context; without `model` it is the context's. `notify` is called on the scheduler's thread at the
  /// end.
  TextTask(std::size_t client, std::vector<std::vector<std::int32_t>> texts,
           std::vector<std::vector<std::int32_t>> types, std::optional<ModifierList> modifiers, TextReading reading,
           std::function<void()> notify, std::vector<TextMarks> marks = {},
           std::shared_ptr<const Model> model = nullptr);

  std::size_t client() const { return client_; }
  std::int64_t waiting_bytes() const { return waiting_bytes_; }  ///< Of its texts.
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_; }

  /// The values of all texts, once they are there. Throws the error of a task that has failed.
  std::optional<std::vector<std::vector<float>>> take() {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    if (!has_ended_) return std::nullopt;
    return std::move(values_);
  }
  JobTimes times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return has_ended_ || error_ != nullptr;
  }
  void fail(std::exception_ptr error);

  // For a round of the scheduler.

  /// Whether its texts may be in a pass with those of the other task.
  bool shares_with(const TextTask& other) const;
  /// The number of the next texts that have at most `n_rows` tokens together; at least one if `at_least_one`.
  std::size_t n_next(std::int64_t n_rows, bool at_least_one) const;
  /// The next texts, and the types of their tokens.
  const std::vector<std::int32_t>& next_ids(std::size_t i) const { return texts_[n_done_ + i]; }
  const std::vector<std::int32_t>& next_types(std::size_t i) const {
    static const std::vector<std::int32_t> none;
    return types_.empty() ? none : types_[n_done_ + i];
  }
  TextMarks next_marks(std::size_t i) const { return marks_.empty() ? TextMarks() : marks_[n_done_ + i]; }
  void receive(std::size_t i, std::span<const float> values) {
    values_[n_done_ + i].assign(values.begin(), values.end());
  }
  /// The values of the next `n` texts are there.
  void advance(std::size_t n);
  void mark_admitted();

  const TextReading& reading() const { return reading_; }
  const std::optional<ModifierList>& modifiers() const { return modifiers_; }
  const Model* model() const { return model_.get(); }  ///< Null: the context's.

 private:
  std::size_t client_;
  std::vector<std::vector<std::int32_t>> texts_, types_;
  std::vector<TextMarks> marks_;
  std::optional<ModifierList> modifiers_;
  std::shared_ptr<const Model> model_;
  TextReading reading_;
  std::function<void()> notify_;
  std::int64_t waiting_bytes_ = 0;
  std::size_t n_done_ = 0;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::vector<std::vector<float>> values_;
  std::exception_ptr error_;
  bool has_ended_ = false;
  JobTimes times_;
};

/// The texts of a pass.
struct TextRound {
  struct Part {
    std::shared_ptr<TextTask> task;
    std::size_t n = 0;  ///< The number of its next texts.
  };
  std::vector<Part> parts;
  std::int64_t n_texts = 0, n_tokens = 0;
};
/// Chooses the next texts of the first task, and of those after it that may share its passes, of at most `n_rows`
/// tokens together, at least one text.
TextRound next_text_round(const std::list<std::shared_ptr<TextTask>>& tasks, std::int64_t n_rows);
/// Reads them. An error ends the task whose text has it, and no other.
void read_text_round(const GenerateContext& context, const TextRound& round);

}  // namespace vitrine
