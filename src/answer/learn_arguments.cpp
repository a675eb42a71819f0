#include "answer/learn_arguments.h"

#include <algorithm>
#include <cctype>

#include "answer/literal.h"
#include "answer/marks.h"

namespace vitrine::answer {
namespace {

constexpr std::string_view kKeys[] = {"vqkeya", "vqkeyb"};
constexpr std::string_view kText = "vqtextvq";
constexpr std::int64_t kNumbers[] = {314151, 271828};
/// A text with what notations escape.
constexpr std::string_view kSpecial = "a\"b\\c\n'd <e> {f} \xC3\xA9";

std::size_t common_suffix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

/// An element in a text: from its first key or value to its last.
struct Found {
  std::size_t begin = 0, end = 0;
  std::vector<CallPart> parts;
};

/// Finds the key ("": none) and the value in `text`, from `from` on.
std::optional<Found> find_element(std::string_view text, std::size_t from, std::string_view key,
                                  std::string_view value) {
  Found found;
  bool has_key = key.empty(), has_value = false;
  std::size_t at = from;
  while (true) {
    const std::size_t next_key = key.empty() ? text.npos : text.find(key, at), next_value = text.find(value, at);
    const std::size_t next = std::min(next_key, next_value);
    if (next == text.npos) break;
    const bool is_key = next_key < next_value;
    if (!is_key && has_value) return std::nullopt;  // the value is written twice
    if (found.parts.empty()) {
      found.begin = next;
    } else if (next > found.end) {
      found.parts.push_back({CallPart::Kind::text, std::string(text.substr(found.end, next - found.end))});
    }
    found.parts.push_back({is_key ? CallPart::Kind::key : CallPart::Kind::value});
    (is_key ? has_key : has_value) = true;
    at = found.end = next + (is_key ? key : value).size();
  }
  if (!has_key || !has_value) return std::nullopt;
  return found;
}

/// Writes a container with these elements.
using WriteElements = std::function<std::optional<std::string>(const std::vector<OrderedJson>& elements)>;

struct Learner {
  const WriteElements& write;
  bool has_keys;

  std::string_view key(std::size_t i) const { return has_keys ? kKeys[i] : std::string_view(); }

  /// The texts of one element, and of it and a number.
  struct Written {
    std::string one, two;
    Found in_one;                        ///< The element in `one`; in `two` it is at the same place.
    std::size_t next = 0, next_end = 0;  ///< The number in `two`.
  };

  std::optional<Written> written(const OrderedJson& element, std::string_view spelled) const {
    const auto one = write({element}), two = write({element, OrderedJson(kNumbers[1])});
    if (!one || !two) return std::nullopt;
    const auto in_one = find_element(*one, 0, key(0), spelled), in_two = find_element(*two, 0, key(0), spelled);
    if (!in_one || !in_two || in_one->begin != in_two->begin || in_one->parts != in_two->parts) return std::nullopt;
    const auto next = find_element(*two, in_two->end, key(1), std::to_string(kNumbers[1]));
    if (!next || one->compare(0, in_one->begin, *two, 0, in_two->begin) != 0) return std::nullopt;
    return Written{*one, *two, *in_one, next->begin, next->end};
  }
};

/// Removes from `tail`, the end of `text`, the end of a mark that begins before it.
std::string_view whole_marks(std::string_view text, std::string_view tail) {
  std::size_t at = text.size() - tail.size();
  const std::size_t begin = mark_boundary(text, at);
  if (begin < at) at = begin + std::max(mark_end(text.substr(begin)), at - begin);
  return text.substr(at);
}

struct LearnedContainer {
  Container container;
  std::string tail;
};

std::optional<LearnedContainer> learn_container(const WriteElements& write, bool has_keys) {
  const Learner learner{write, has_keys};
  const auto empty = write({});
  const auto number = learner.written(kNumbers[0], std::to_string(kNumbers[0]));
  const auto text = learner.written(std::string(kText), kText);
  if (!empty || !number || !text) return std::nullopt;
  const auto before = [](const Learner::Written& w) { return std::string_view(w.one).substr(0, w.in_one.begin); };
  if (!before(*text).starts_with(before(*number))) return std::nullopt;
  const auto rest = [](const Learner::Written& w) { return std::string_view(w.one).substr(w.in_one.end); };
  const auto gap = [](const Learner::Written& w) {
    return std::string_view(w.two).substr(w.in_one.end, w.next - w.in_one.end);
  };
  // What follows every element and an empty container closes the container.
  const std::string_view shortest = std::min({rest(*number), rest(*text), std::string_view(*empty)},
                                             [](auto a, auto b) { return a.size() < b.size(); });
  std::size_t size = shortest.size();
  for (const std::string_view other : {rest(*number), rest(*text), std::string_view(*empty)}) {
    size = std::min(size, common_suffix(other, shortest));
  }
  std::string_view tail = rest(*number).substr(rest(*number).size() - size);
  tail = whole_marks(rest(*number), tail);
  tail = whole_marks(rest(*text), tail);
  LearnedContainer learned;
  Container& container = learned.container;
  learned.tail = tail;
  container.empty = empty->substr(0, empty->size() - tail.size());
  container.open = before(*number);
  std::optional<std::string_view> separator;
  for (const auto& [written, parts] : {std::pair{&*number, &container.of_other}, {&*text, &container.of_text}}) {
    const std::string_view all = rest(*written);
    const std::string_view after = all.substr(0, all.size() - tail.size());
    if (!gap(*written).starts_with(after)) return std::nullopt;
    const std::string_view between = gap(*written).substr(after.size());
    if (separator && *separator != between) return std::nullopt;
    separator = between;
    *parts = written->in_one.parts;
    const std::string_view marks = before(*written).substr(container.open.size());
    if (!marks.empty()) parts->insert(parts->begin(), {CallPart::Kind::text, std::string(marks)});
    if (!after.empty()) parts->push_back({CallPart::Kind::text, std::string(after)});
  }
  container.separator = *separator;
  return learned;
}

/// What is written where `around` has its number: for a value of another kind in its place. None if more changes.
std::optional<std::string> in_place(const std::string& around, const std::optional<std::string>& text) {
  const std::string number = std::to_string(kNumbers[0]);
  const std::size_t at = around.find(number);
  const std::string_view before = std::string_view(around).substr(0, at);
  const std::string_view after = std::string_view(around).substr(at + number.size());
  if (!text || !text->starts_with(before) || !text->ends_with(after)) return std::nullopt;
  if (text->size() < before.size() + after.size()) return std::nullopt;
  return text->substr(at, text->size() - before.size() - after.size());
}

/// Whether a text is written as a literal in quotes, so that it needs no form of its own.
bool is_literal(const std::optional<std::string>& written, const OrderedJson& value) {
  if (!written) return false;
  const auto read = read_literal(*written);
  return read && read->second == written->size() && read->first == value;
}

/// Whether a text ends with a mark, which no text has by chance, or is in quotes.
bool ends_with_mark(const Container& container) {
  std::string before, after;
  bool is_after = false;
  for (const CallPart& part : container.of_text) {
    (is_after ? after : before) += part.text;
    is_after = is_after || part.kind == CallPart::Kind::value;
  }
  if (!before.empty() && !after.empty() && before.back() == after.front() &&
      std::ispunct(static_cast<unsigned char>(after[0])) != 0) {
    return true;
  }
  after += container.separator;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (mark_end(std::string_view(after).substr(i)) > 2) return true;
  }
  return false;
}

}  // namespace

std::optional<ArgumentsFormat> learn_arguments(const WriteArguments& write) {
  const auto members_of = [](const std::vector<OrderedJson>& values) {
    OrderedJson members = OrderedJson::object();
    for (std::size_t i = 0; i < values.size(); ++i) members[std::string(kKeys[i])] = values[i];
    return members;
  };
  const auto learned = learn_container([&](const auto& values) { return write(members_of(values)); }, true);
  if (!learned) return std::nullopt;
  ArgumentsFormat format;
  format.members = learned->container;
  const std::string around = *write(members_of({kNumbers[0]}));
  const auto value = [&](const OrderedJson& v) { return in_place(around, write(members_of({v}))); };
  const OrderedJson special = std::string(kSpecial);
  const bool has_quotes = is_literal(value(special), special);
  if (has_quotes) format.members.of_text.clear();
  if (!has_quotes && !ends_with_mark(format.members)) return std::nullopt;
  const auto& of_text = format.members.of_text;
  const auto& of_other = format.members.of_other;
  const bool is_marked =
      of_text.size() > 1 && (of_text[1] == of_other[1] || !of_text[1].text.starts_with(of_other[1].text));
  format.kind = is_marked ? ArgumentsFormat::Kind::fields : ArgumentsFormat::Kind::values;

  const OrderedJson list = {1, "a", {{"b", true}}}, object = {{"vqc", {1, "a"}}, {"vqd", {{"e", nullptr}}}};
  if (is_literal(value(list), list) && is_literal(value(object), object)) return format;
  const OrderedJson plain_list = {1, "a"}, plain_object = {{"vqc", "a"}, {"vqd", 2}};
  if (is_literal(value(plain_list), plain_list) && is_literal(value(plain_object), plain_object)) return format;
  format.notation.kind = Notation::Kind::nested;
  for (const bool is_object : {false, true}) {
    auto nested = learn_container(
        [&](const std::vector<OrderedJson>& values) {
          return value(is_object ? members_of(values) : OrderedJson(values));
        },
        is_object);
    if (!nested) return std::nullopt;
    nested->container.close = nested->tail;
    if (has_quotes) nested->container.of_text.clear();
    (is_object ? format.notation.object : format.notation.list) = std::move(nested->container);
  }
  return format;
}

}  // namespace vitrine::answer
