// Reads the arguments of a call while they come, and writes them as JSON.
#pragma once

#include <string>
#include <string_view>

#include "answer/elements.h"
#include "answer/marks.h"

namespace vitrine::answer {

class ArgumentsReader {
 public:
  /// `schema` has the types of the arguments (null: unknown); `after` follows them, "": anything. All are referred to.
  ArgumentsReader(const ArgumentsFormat& format, const OrderedJson& schema, std::string_view after)
      : format_(&format), schema_(&schema), after_(after) {}

  /// Reads on in `text`, whose arguments begin at `at`, which moves on. The rest of `text` may grow between calls; with
  /// `is_last` it does not. Adds to `json` what has become known. Yes: they are whole. No: these are no arguments, or
  /// they break off.
  Match read(std::string_view text, std::size_t& at, bool is_last, std::string& json);

  /// Lets the next read() try again what was not whole, however little text has come.
  void retry() { next_size_ = 0; }

 private:
  enum class Phase : std::uint8_t { begin, json, element, text, after_element, whole };

  Match json_text(std::string_view text, std::size_t& at, std::string& json);
  // Steps through members. Yes: there is a next one, or they are whole.
  Match begin(std::string_view text, std::size_t& at, bool is_last, std::string& json);
  Match element(std::string_view text, std::size_t& at, bool is_last, std::string& json);
  Match text_value(std::string_view text, std::size_t& at, bool is_last, std::string& json);
  Match after_element(std::string_view text, std::size_t& at, bool is_last, std::string& json);
  /// One try of an element that is not a text, or of what is before a text.
  bool take_element(bool as_text, std::string_view text, std::size_t& at, bool is_last, std::string& json);

  ElementReader elements() { return {format_->members, format_->notation, after_, true, notes_}; }
  /// Whether more text could change what was just read.
  bool is_open(bool is_last) const { return notes_.reached_end && !is_last; }
  Match end(std::string& json, std::string_view closing);

  const ArgumentsFormat* format_;
  const OrderedJson* schema_;
  std::string_view after_;
  Phase phase_ = Phase::begin;
  // JSON text.
  int depth_ = 0;
  bool is_in_string_ = false, is_escaped_ = false;
  // Members.
  ReadingNotes notes_{};
  bool has_members_ = false;
  std::size_t element_begin_ = 0;  ///< Where the element begins, with what separates it from the last one.
  std::size_t next_size_ = 0;      ///< The size of the text with which an element that was not whole is tried again.
  std::string after_text_{};       ///< What the element has after the text that is being read.
};

}  // namespace vitrine::answer
