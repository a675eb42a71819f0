// Takes an answer apart while it is generated.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/call_reader.h"
#include "answer/content.h"

namespace vitrine::answer {

/// What a piece of an answer adds.
struct AnswerDelta {
  /// The next piece of a call's arguments, which are JSON text.
  struct Call {
    std::size_t index = 0;     ///< The number of the call.
    std::string id{}, name{};  ///< In the first piece only. The id is "" if the format has none.
    std::string arguments{};   ///< In the order of the text, numbers as the model spelled them.
    bool begins = false;       ///< This is the first piece.
  };
  std::string content{}, reasoning{};
  std::vector<Call> calls{};

  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

/// Reads an answer in pieces. All deltas together are what parse_answer() finds in the whole text, wherever the pieces
/// are cut. The reader holds back text that may still become a mark, and white space that may be at an end. If a
/// template may leave out the end of a reasoning that its prompt begins, everything up to that end is held back:
/// without it, the answer is content.
///
/// What was handed out is never taken back, so a call that breaks off is not content, as it is for parse_answer(). A
/// call is handed out once these have been read: what begins it, the name of a declared tool, the text after the name,
/// what begins the arguments, and the id, if the format has one. If the answer ends within the call, its arguments are
/// a beginning of JSON text. If something else follows than the format has, that is content. JSON arguments are not
/// checked beyond their brackets and strings.
class AnswerReader {
 public:
  /// An answer to `prompt`, with tools as in requests (a list, or null). `format` must live as long as the reader.
  AnswerReader(const AnswerFormat& format, std::string_view prompt, OrderedJson tools);

  /// Adds a piece of the answer: whole characters of UTF-8.
  AnswerDelta append(std::string_view text);

  /// The answer has ended: what was held back.
  AnswerDelta finish();

  /// All deltas so far, put together, with one element for each call.
  const AnswerDelta& answer() const { return answer_; }

  /// Whether the text so far ends inside the reasoning.
  bool is_reasoning() const;

 private:
  enum class Phase : std::uint8_t { start, reasoning, content, calls, after_calls };

  AnswerDelta read(bool is_last);
  // The phases. True: the next one has begun.
  bool start(bool is_last);
  bool reasoning(bool is_last, AnswerDelta& delta);
  bool content(bool is_last, AnswerDelta& delta);
  bool calls(bool is_last, AnswerDelta& delta);

  std::string_view rest_of(std::size_t at) const { return std::string_view(text_).substr(at); }
  std::string_view text_between(std::size_t begin, std::size_t end) const {
    return rest_of(begin).substr(0, end - begin);
  }
  ContentPlace place() const;
  void begin_phase(Phase phase, std::size_t at);
  bool is_space_since(std::size_t at);
  bool find_call(bool is_last);
  Match try_call(bool is_last);
  bool read_call(bool is_last);
  Match next_call(bool is_last);
  Match go_on_with_call(bool is_last);
  void hand_out_reasoning(std::size_t end, AnswerDelta& delta);
  void hand_out_content(AnswerDelta& delta);
  void end_content(AnswerDelta& delta);
  void add_content(std::string_view content, AnswerDelta& delta);
  void hand_out_call(AnswerDelta& delta);

  const AnswerFormat* format_;
  std::unique_ptr<const OrderedJson> tools_;
  std::string text_{};  ///< All of the answer so far.
  AnswerDelta answer_{};
  Phase phase_ = Phase::start;
  bool is_open_ = false;      ///< The prompt has begun the reasoning.
  bool may_call_ = false;     ///< A call may begin.
  std::size_t begin_ = 0;     ///< Where the phase begins in the text.
  std::size_t searched_ = 0;  ///< Up to where the text has been searched for what ends the phase.
  std::size_t seen_ = 0;      ///< Up to where it has been looked at for what can be handed out.
  std::optional<std::size_t> content_begin_{};
  std::size_t n_handed_out_ = 0;  ///< Bytes of the reasoning or the content of this phase, or of a call's arguments.
  // A call, or what may become one: at searched_, with the begin of this number.
  std::optional<CallReader> call_{};
  std::size_t begin_number_ = 0;
  bool is_in_call_ = false;  ///< It is one.
  std::size_t n_calls_ = 0;  ///< Calls that have been handed out.
};

}  // namespace vitrine::answer
