// The messages of a conversation, and the file that keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ordered_json.h"

namespace vitrine {

/// Parses JSON, with the checks of TemplateData::parse(). Throws BadInput; `where` names the text in errors.
OrderedJson parse_ordered_json(std::string_view json, std::string_view where);

/// A list of messages, each a JSON object with a role. An exchange is a message of the user and all that follow, up to
/// the next one of the user. Messages with the role system or developer belong to no exchange.
class ChatHistory {
 public:
  /// Parses `{"messages": […], "tools": […]}`, tools being optional, or a list of messages. `where` names the text in
  /// errors. Throws BadInput.
  static ChatHistory parse(std::string_view json, std::string_view where);
  /// Opens the file at `path`. Throws BadInput if it cannot be read, and as parse() does.
  static ChatHistory open(const std::string& path);
  /// Replaces the file at `path`, or creates it. A reader sees the old or the new messages. Throws as write_file()
  /// does.
  void save(const std::string& path) const;

  const OrderedJson& messages() const { return messages_; }
  const OrderedJson& tools() const { return tools_; }  ///< null if there are none
  void set_tools(OrderedJson tools) { tools_ = std::move(tools); }
  bool is_empty() const { return messages_.empty(); }

  /// The content of the leading system message; "" if there is none.
  std::string system() const;
  /// Replaces the leading system message, or adds it; "" removes it.
  void set_system(const std::string& text);
  void add(std::string_view role, const std::string& content);
  void add(OrderedJson message) { messages_.push_back(std::move(message)); }
  /// Removes the last exchange. Returns the number of removed messages, 0 if there is no exchange.
  std::int64_t undo();
  /// Removes what follows the last message of the user. Returns false if there is none.
  bool take_back_answer();

  std::int64_t n_exchanges() const;
  /// This conversation without its first `n` exchanges.
  ChatHistory without_first(std::int64_t n) const;

 private:
  OrderedJson messages_ = OrderedJson::array();
  OrderedJson tools_;
};

}  // namespace vitrine
