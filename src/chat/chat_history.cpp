#include "chat/chat_history.h"

#include <utility>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "template/chat_template.h"

namespace vitrine {
namespace {

bool has_role(const OrderedJson& message, std::string_view role) {
  const auto found = message.find("role");
  return found != message.end() && found->is_string() && found->get_ref<const std::string&>() == role;
}

bool is_system(const OrderedJson& message) { return has_role(message, "system") || has_role(message, "developer"); }

/// The index of the last message of the user; the number of messages if there is none.
std::size_t last_question(const OrderedJson& messages) {
  for (std::size_t i = messages.size(); i > 0; --i) {
    if (has_role(messages[i - 1], "user")) return i - 1;
  }
  return messages.size();
}

std::int64_t shorten(OrderedJson& messages, std::size_t size) {
  const std::size_t removed = messages.size() - size;
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(size), messages.end());
  return static_cast<std::int64_t>(removed);
}

}  // namespace

OrderedJson parse_ordered_json(std::string_view json, std::string_view where) {
  TemplateData::parse(json, where);
  OrderedJson value = OrderedJson::parse(json, nullptr, false);
  if (value.is_discarded()) throw BadInput(where, "expected JSON without NaN, infinities and lone surrogates");
  return value;
}

ChatHistory ChatHistory::parse(std::string_view json, std::string_view where) {
  OrderedJson all = parse_ordered_json(json, where);
  ChatHistory conversation;
  if (all.is_object()) {
    if (!all.contains("messages")) throw BadInput(where, "expected \"messages\", a list");
    if (all.contains("tools")) conversation.tools_ = std::move(all["tools"]);
    all = OrderedJson(std::move(all["messages"]));
  }
  if (!all.is_array()) throw BadInput(where, "expected a list of messages, got {}", all.type_name());
  for (const OrderedJson& message : all) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      throw BadInput(where, "expected messages with a \"role\", got {}", message.dump());
    }
  }
  conversation.messages_ = std::move(all);
  return conversation;
}

ChatHistory ChatHistory::open(const std::string& path) {
  return parse(MappedFile::open(path)->text_without_mark(), path);
}

void ChatHistory::save(const std::string& path) const {
  OrderedJson all = {{"messages", messages_}};
  if (!tools_.is_null()) all["tools"] = tools_;
  write_file(path, all.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

std::string ChatHistory::system() const {
  const bool has_text = !messages_.empty() && is_system(messages_[0]) && messages_[0].contains("content") &&
                        messages_[0]["content"].is_string();
  return has_text ? messages_[0]["content"].get<std::string>() : "";
}

void ChatHistory::set_system(const std::string& text) {
  if (!messages_.empty() && is_system(messages_[0])) messages_.erase(0);
  if (!text.empty()) messages_.insert(messages_.begin(), OrderedJson{{"role", "system"}, {"content", text}});
}

void ChatHistory::add(std::string_view role, const std::string& content) {
  messages_.push_back({{"role", role}, {"content", content}});
}

std::int64_t ChatHistory::undo() { return shorten(messages_, last_question(messages_)); }

bool ChatHistory::take_back_answer() {
  const std::size_t question = last_question(messages_);
  if (question == messages_.size()) return false;
  shorten(messages_, question + 1);
  return true;
}

std::int64_t ChatHistory::n_exchanges() const {
  std::int64_t n = 0;
  for (const OrderedJson& message : messages_) n += has_role(message, "user");
  return n;
}

ChatHistory ChatHistory::without_first(std::int64_t n) const {
  ChatHistory rest;
  rest.tools_ = tools_;
  std::int64_t exchange = 0;  // 1 for the first one; messages before it go with it
  for (const OrderedJson& message : messages_) {
    exchange += has_role(message, "user");
    if (exchange > n || n == 0 || is_system(message)) rest.messages_.push_back(message);
  }
  return rest;
}

}  // namespace vitrine
