#include "conversation/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "template/json.h"

namespace vitrine {
namespace {

using jinja::Kind;
using jinja::Value;

constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // of the values of a line
constexpr std::int64_t kNotLearned = -100;

/// Reads the object of one line.
class LineReader {
 public:
  LineReader(jinja::Heap& heap, const Value& object, const std::string& where)
      : heap_(heap), object_(object), where_(where) {}

  std::vector<Conversation> read() const {
    if (has("chosen") || has("rejected")) return pair();
    Conversation one;
    if (has("messages")) {
      one = of_messages(list("messages"));
    } else if (has("conversations")) {
      one = share_gpt();
    } else if (has("completion")) {
      one = continued(need("completion"), "completion");
    } else if (has("instruction")) {
      one = alpaca();
    } else if (has("text")) {
      one.form = Conversation::Form::text;
      one.text = text("text");
    } else if (has("input_ids")) {
      one = labelled_ids();
    } else {
      throw BadInput(where_,
                     "expected messages, prompt and completion, instruction and output, conversations, text, input_ids "
                     "and labels, or chosen and rejected; got none of these keys");
    }
    std::vector<Conversation> result;
    result.push_back(std::move(one));
    return result;
  }

 private:
  const Value* find(std::string_view key) const {
    const Value* const value = object_.dict->find(key);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Value& need(std::string_view key) const {
    const Value* const value = find(key);
    if (value == nullptr) throw BadInput(where_, "the key {} is missing", key);
    return *value;
  }
  const Value& list(std::string_view key) const {
    const Value& value = need(key);
    if (!value.is(Kind::list)) fail(key, "a list", value);
    if (value.list->items.empty()) throw BadInput(where_, "{}: expected at least one entry, got none", key);
    return value;
  }
  std::string_view text(std::string_view key) const { return text_of(need(key), key); }
  std::string_view text_of(const Value& value, std::string_view key) const {
    if (!value.is_string()) fail(key, "text", value);
    return value.text();
  }
  [[noreturn]] void fail(std::string_view key, const char* expected, const Value& got) const {
    throw BadInput(where_, "{}: expected {}, got {}", key, expected, jinja::type_name(got));
  }

  Value message(std::string_view role, const Value& content) const {
    auto* const made = heap_.make<jinja::Dict>(heap_);
    made->set(jinja::borrowed(heap_, "role"), jinja::borrowed(heap_, role));
    made->set(jinja::borrowed(heap_, "content"), content);
    return jinja::dict(made);
  }

  Conversation of_messages(const Value& messages) const {
    Conversation one;
    one.messages = messages;
    for (const Value& entry : messages.list->items) {
      const Value* const role = entry.is(Kind::dict) ? entry.dict->find("role") : nullptr;
      if (role == nullptr || !role->is_string()) {
        throw BadInput(where_, "expected a list of messages, each an object with a \"role\"");
      }
    }
    one.tools = tools();
    return one;
  }

  /// `tools`: a list, or, as some data sets have it, JSON of one in a string.
  Value tools() const {
    const Value* value = find("tools");
    if (value == nullptr) return jinja::none();
    const Value result =
        value->is_string() ? jinja::parse_json_value(heap_, value->text(), where_ + ": tools") : *value;
    if (!result.is(Kind::list)) fail("tools", "a list", result);
    return result.list->items.empty() ? jinja::none() : result;
  }

  Conversation joined(const jinja::List* prompt, const jinja::List& answer) const {
    auto* const all = heap_.make<jinja::List>(heap_);
    if (prompt != nullptr) all->items = prompt->items;
    all->items.insert(all->items.end(), answer.items.begin(), answer.items.end());
    Conversation one = of_messages(jinja::list(all));
    one.n_given = all->items.size() - answer.items.size();
    return one;
  }

  /// A prompt and `answer`: both texts, messages, or ids.
  Conversation continued(const Value& answer, std::string_view key) const {
    const Value& prompt = need("prompt");
    if (is_ids(answer)) {
      Conversation one;
      one.form = Conversation::Form::ids;
      one.ids = ids(prompt, "prompt");
      one.learned.assign(one.ids.size(), 0);
      const std::vector<std::int32_t> rest = ids(answer, key);
      one.ids.insert(one.ids.end(), rest.begin(), rest.end());
      one.learned.resize(one.ids.size(), 1);
      return one;
    }
    if (prompt.is(Kind::list) && answer.is(Kind::list)) return joined(prompt.list, *answer.list);
    text_of(prompt, "prompt");
    text_of(answer, key);
    return exchange({}, prompt, answer);
  }

  /// A question and its answer, after what the system says, unless that is `missing`.
  Conversation exchange(const Value& system, const Value& question, const Value& answer) const {
    auto* const all = heap_.make<jinja::List>(heap_);
    if (!system.is_missing()) all->items.push_back(message("system", system));
    all->items.push_back(message("user", question));
    all->items.push_back(message("assistant", answer));
    Conversation one = of_messages(jinja::list(all));
    one.n_given = all->items.size() - 1;
    one.is_plain = system.is_missing();
    return one;
  }

  Conversation alpaca() const {
    std::string question(text("instruction"));
    if (has("input") && !text("input").empty()) question += "\n\n" + std::string(text("input"));
    text("output");
    const bool has_system = has("system") && !text("system").empty();
    return exchange(has_system ? need("system") : Value{}, jinja::string(heap_, question), need("output"));
  }

  Conversation share_gpt() const {
    const Value& turns = list("conversations");
    const Value& first = turns.list->items.front();
    if (first.is(Kind::dict) && first.dict->find("role") != nullptr) return of_messages(turns);
    auto* const all = heap_.make<jinja::List>(heap_);
    if (has("system") && !text("system").empty()) all->items.push_back(message("system", need("system")));
    for (const Value& turn : turns.list->items) {
      const Value* const from = turn.is(Kind::dict) ? turn.dict->find("from") : nullptr;
      const Value* const value = turn.is(Kind::dict) ? turn.dict->find("value") : nullptr;
      if (from == nullptr || value == nullptr) {
        throw BadInput(where_, "conversations: expected entries with \"from\" and \"value\"");
      }
      text_of(*value, "value");
      all->items.push_back(message(role_of(text_of(*from, "from")), *value));
    }
    return of_messages(jinja::list(all));
  }

  std::string_view role_of(std::string_view from) const {
    constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
        {"human", "user"},    {"user", "user"}, {"gpt", "assistant"},    {"assistant", "assistant"},
        {"system", "system"}, {"tool", "tool"}, {"observation", "tool"}, {"function_response", "tool"}};
    for (const auto& [name, role] : kRoles) {
      if (name == from) return role;
    }
    throw BadInput(where_, "from: expected human, gpt, system or tool, got \"{}\"", from);
  }

  static bool is_ids(const Value& value) {
    return value.is(Kind::list) && !value.list->items.empty() && value.list->items.front().is(Kind::integer);
  }

  std::vector<std::int32_t> ids(const Value& value, std::string_view key) const {
    if (!value.is(Kind::list)) fail(key, "a list of ids", value);
    std::vector<std::int32_t> result;
    result.reserve(value.list->items.size());
    for (const Value& item : value.list->items) {
      const bool fits = item.is(Kind::integer) && item.integer >= kNotLearned &&
                        item.integer <= std::numeric_limits<std::int32_t>::max();
      if (!fits) throw BadInput(where_, "{}: expected a list of ids, got other values in it", key);
      result.push_back(static_cast<std::int32_t>(item.integer));
    }
    return result;
  }

  Conversation labelled_ids() const {
    Conversation one;
    one.form = Conversation::Form::ids;
    one.ids = ids(need("input_ids"), "input_ids");
    const std::vector<std::int32_t> labels = ids(need("labels"), "labels");
    if (labels.size() != one.ids.size()) {
      throw BadInput(where_, "labels: expected as many as input_ids ({}), got {}", one.ids.size(), labels.size());
    }
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != kNotLearned && labels[i] != one.ids[i]) {
        throw BadInput(where_, "labels: expected the id itself ({}) or {} at {}, got {}", one.ids[i], kNotLearned, i,
                       labels[i]);
      }
      one.learned.push_back(labels[i] != kNotLearned);
    }
    return one;
  }

  std::vector<Conversation> pair() const {
    const Value &chosen = need("chosen"), &rejected = need("rejected");
    std::vector<Conversation> result;
    if (has("prompt")) {
      result.push_back(continued(chosen, "chosen"));
      result.push_back(continued(rejected, "rejected"));
      return result;
    }
    // The prompt is what the two have in common.
    const jinja::List &a = *list("chosen").list, &b = *list("rejected").list;
    const auto first =
        std::mismatch(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), jinja::equal).first;
    for (const Value* whole : {&chosen, &rejected}) {
      result.push_back(of_messages(*whole));
      result.back().n_given = static_cast<std::size_t>(first - a.items.begin());
    }
    return result;
  }

  jinja::Heap& heap_;
  const Value& object_;
  const std::string& where_;
};

}  // namespace

ConversationLine parse_conversation(std::string_view line, const std::string& where) {
  ConversationLine result;
  result.heap = std::make_unique<jinja::Heap>(kMaxBytes);
  const Value object = jinja::parse_json_value(*result.heap, line, where);
  if (!object.is(Kind::dict)) {
    throw BadInput(where, "expected a JSON object on each line, got {}", jinja::type_name(object));
  }
  result.conversations = LineReader(*result.heap, object, where).read();
  return result;
}

void for_each_line(
    const std::string& path,
    const std::function<void(std::string_view line, const std::string& where, std::int64_t number)>& take) {
  const auto file = MappedFile::open_or_read(path);
  std::string_view rest = file->text_without_mark();
  if (const std::size_t first = rest.find_first_not_of(" \t\r\n"); first != rest.npos && rest[first] == '[') {
    throw BadInput(path,
                   "expected a JSON object on each line, got a list; `jq -c '.[]' FILE` writes its items as lines");
  }
  std::int64_t n_lines = 0, number = 0;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++n_lines;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    take(line, fmt::format("{}, line {}", path, n_lines), number++);
  }
  if (number == 0) throw BadInput(path, "expected a conversation on each line, got an empty file");
}

}  // namespace vitrine
