// Reads a call of a tool while it comes.
#pragma once

#include <string>
#include <string_view>

#include "answer/arguments_reader.h"

namespace vitrine::answer {

class CallReader {
 public:
  /// The call begins with its first part, at `at` of a text. `tools` are as in requests. Both are referred to.
  CallReader(const CallFormat& format, const OrderedJson& tools, std::size_t at)
      : format_(&format), tools_(&tools), at_(at) {}

  /// Reads on in `text`, which may have grown at its end; with `is_last` it does not grow any more. Yes: the call is
  /// whole. No: it is no call of a declared tool, or it breaks off.
  Match read(std::string_view text, bool is_last);

  /// Lets the next read() try again what was not whole, however little text has come.
  void retry() {
    if (arguments_) arguments_->retry();
  }

  std::size_t at() const { return at_; }  ///< Up to where the text is read.
  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }
  /// The arguments so far, as JSON text.
  const std::string& arguments() const { return json_; }
  /// Whether the name is known, and arguments have begun after it.
  bool has_begun() const { return !name_.empty() && !json_.empty(); }
  /// Whether the id is known, too, if the format has one.
  bool is_known() const { return has_begun() && (!id_.empty() || !format_->has(CallPart::Kind::id)); }

 private:
  Match part(const CallPart& part, std::string_view text, bool is_last);
  Match read_name(std::string_view rest, bool is_last);
  std::string_view after_part() const;

  const CallFormat* format_;
  const OrderedJson* tools_;
  std::size_t at_;
  std::size_t i_ = 0;  ///< The part that is read.
  std::string name_{}, id_{}, json_{};
  const OrderedJson* parameters_ = nullptr;  ///< The schema of the tool's arguments, if it has one.
  std::optional<ArgumentsReader> arguments_{};
};

/// Removes what ends calls from the beginning of `text`. What a template puts after an answer may be missing.
Match take_end(const CallFormat& format, std::string_view& text, bool is_last);

}  // namespace vitrine::answer
