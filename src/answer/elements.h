// The elements of lists and objects that a template writes in its own notation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/format.h"

namespace vitrine::answer {

/// What is noted while a text is read.
struct ReadingNotes {
  std::int64_t tries = 0;    ///< Elements that were tried, some of them in several ways.
  bool reached_end = false;  ///< More text could change what was read.
};

/// An element of a container.
struct Element {
  std::string key{};  ///< "": none.
  OrderedJson value{};
  std::string_view spelled{};  ///< The text of the value.
};

/// Reads the elements of a Container. `close` is what follows them; "": unknown.
class ElementReader {
 public:
  ElementReader(const Container& container, const Notation& notation, std::string_view close, bool has_keys,
                ReadingNotes& notes, int depth = 0)
      : container_(container), notation_(notation), close_(close), has_keys_(has_keys), depth_(depth), notes_(notes) {}

  /// The whole container at the beginning of `text`, which is removed from it.
  std::optional<OrderedJson> read(const OrderedJson& schema, std::string_view& text) const;

  /// Removes the text of a container without elements from the beginning of `text`.
  bool take_empty(std::string_view& text) const;
  /// Whether nothing but what closes the container can follow.
  bool ends(std::string_view text) const;
  /// Whether the container ends before `text`, or goes on.
  bool ends_or_goes_on(std::string_view text) const { return ends(text) || starts(text, container_.separator); }
  /// Without anything that closes it, a container ends where no element follows.
  bool may_end_open(bool has_elements) const { return close_.empty() && (has_elements || container_.empty == ""); }

  /// The forms to try for the element at the beginning of `text`, true: a text. What the schema says, else what fits.
  std::vector<bool> order(const OrderedJson& schema, std::string_view text) const;
  /// Removes an element from the beginning of `text`.
  std::optional<Element> form(bool as_text, const OrderedJson& schema, std::string_view& text) const;
  /// Removes what is before the value of an element from the beginning of `text`. Returns the element's key.
  std::optional<std::string> before_value(bool as_text, std::string_view& text) const;
  /// What an element has after its value.
  std::string after_value(bool as_text, std::string_view key) const;

 private:
  bool starts(std::string_view text, std::string_view literal) const;
  bool take_mark(std::string_view& text, std::string_view literal) const;
  std::size_t find(std::string_view text, std::string_view literal, std::size_t from = 0) const;
  bool elements(const OrderedJson& schema, OrderedJson& all, std::string_view& text) const;
  std::optional<Element> element(const OrderedJson& schema, std::string_view& text) const;
  std::string key_at(std::string_view text) const;
  std::size_t text_size(std::string_view text, std::string_view after) const;
  std::optional<OrderedJson> other_value(const OrderedJson& schema, std::string_view& text) const;

  const Container& container_;
  const Notation& notation_;
  std::string_view close_;
  bool has_keys_;
  int depth_;
  ReadingNotes& notes_;
};

}  // namespace vitrine::answer
