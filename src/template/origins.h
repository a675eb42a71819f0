// Which bytes of a rendering the template wrote, and which came with the conversation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/heap.h"

namespace vitrine::jinja {

/// Parts of a text: bytes [begin, end), in ascending order and disjoint.
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Knows where the bytes of strings come from by their addresses: values are neither moved nor freed while a rendering
/// runs, so a part of a string (`trim`, `split`, a slice) needs no entry of its own. What is not known to be the
/// template's belongs to the conversation.
class Origins {
 public:
  /// All text in `heap` is the template's.
  void add(const Heap& heap);
  void add(std::string_view text) { add(text.data(), text.data() + text.size()); }
  /// These parts of `text` are the template's.
  void add(std::string_view text, const Spans& parts);
  bool covers(std::string_view text) const;
  /// Adds the template's parts of `text` to `spans`, where the first byte of `text` is number `at`.
  void append(Spans& spans, std::string_view text, std::size_t at) const;

 private:
  void add(const char* begin, const char* end);

  std::map<const char*, const char*> ranges_;  ///< begin → end, disjoint
};

void append_span(Spans& spans, std::int64_t begin, std::int64_t end);

/// Text that is being written, and which parts of it are the template's. `origins` may be null: nobody asks.
class Draft {
 public:
  explicit Draft(const Origins* origins) : origins_(origins) {}
  Draft& operator+=(std::string_view part) {
    if (origins_ != nullptr) origins_->append(spans_, part, text_.size());
    text_ += part;
    return *this;
  }
  /// Adds text that no conversation can choose freely, such as a number.
  void add_own(std::string_view part) {
    if (origins_ != nullptr) {
      append_span(spans_, static_cast<std::int64_t>(text_.size()),
                  static_cast<std::int64_t>(text_.size() + part.size()));
    }
    text_ += part;
  }
  void reserve(std::size_t size) { text_.reserve(size); }
  std::size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  const Spans& spans() const { return spans_; }
  std::string take() { return std::move(text_); }

 private:
  const Origins* origins_;
  std::string text_;
  Spans spans_;
};

}  // namespace vitrine::jinja
