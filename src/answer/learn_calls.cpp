#include <algorithm>
#include <cctype>

#include "answer/learn.h"
#include "answer/learn_arguments.h"
#include "answer/literal.h"
#include "answer/marks.h"
#include "base/error.h"

namespace vitrine::answer {
namespace {

const OrderedJson kObject = {
    {"vqa", "a\"b\\c\n'd \xC3\xA9"}, {"vqb", {1, {{"c", nullptr}}}}, {"vqc", true}, {"vqd", -2.5}};

/// A value in a text.
struct Slot {
  std::size_t begin, end;
  CallPart::Kind kind;
};

/// Where the name and the id of call `i` are in `text`, in their order.
std::vector<Slot> find_slots(std::string_view text, std::size_t i) {
  std::vector<Slot> slots;
  for (const auto& [value, kind] :
       {std::pair{probe_name(i), CallPart::Kind::name}, std::pair{probe_id(i), CallPart::Kind::id}}) {
    for (std::size_t at = text.find(value); at != text.npos; at = text.find(value, at + value.size())) {
      slots.push_back({at, at + value.size(), kind});
    }
  }
  std::ranges::sort(slots, {}, &Slot::begin);
  return slots;
}

/// Where an object is in `text`.
std::optional<Slot> find_object(std::string_view text, const OrderedJson& object, decltype(read_json)& reader) {
  for (std::size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
    const auto read = reader(text.substr(at));
    if (read && read->first == object) return Slot{at, at + read->second, CallPart::Kind::arguments};
  }
  return std::nullopt;
}

std::vector<CallPart> parts_of(std::string_view text, const std::vector<Slot>& slots) {
  std::vector<CallPart> parts;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i > 0 && slots[i].begin > slots[i - 1].end) {
      parts.push_back(
          {CallPart::Kind::text, std::string(text.substr(slots[i - 1].end, slots[i].begin - slots[i - 1].end))});
    }
    parts.push_back({slots[i].kind});
  }
  return parts;
}

/// A call, or two, in what a template writes.
struct Written {
  std::string text;
  std::vector<Slot> first, second;
};

class CallLearner {
 public:
  CallLearner(Prober& prober, const AnswerFormat& format) : prober_(prober), format_(format) {}

  CallFormat learn() {
    find_form();
    const Written one = write(1);
    calls_.parts = parts_of(one.text, one.first);
    calls_.end = one.text.substr(one.first.back().end);
    learn_several();
    learn_begin(one);
    learn_closing();
    learn_example();
    learn_ids();
    return std::move(calls_);
  }

 private:
  [[noreturn]] static void fail(std::string_view why) { throw BadInput("tools", "{}", why); }

  std::optional<std::string> answer(const Probe& probe) { return prober_.answer(probe, calls_.form, true); }

  /// How the template reads messages with calls, and how it writes arguments.
  void find_form() {
    bool writes_calls = false, renders = false, prints_dict = false;
    std::string why;
    for (const bool null_content : {false, true}) {
      for (const bool text_arguments : {false, true}) {
        calls_.form = {text_arguments, null_content};
        const auto text = answer({.calls = {kObject}});
        if (!text && why.empty()) why = prober_.why();
        renders = renders || text;
        if (!text || find_slots(*text, 0).empty()) continue;
        writes_calls = true;
        if (find_object(*text, kObject, read_json)) return;
        // A dict of Python is what a template prints that reads arguments as JSON text.
        const bool is_dict = find_object(*text, kObject, read_literal).has_value();
        prints_dict = prints_dict || is_dict;
        if (!text_arguments && !is_dict && find_other_arguments()) return;
      }
    }
    if (prints_dict) {
      calls_.form = {};
      if (find_other_arguments()) return;
    }
    if (!renders) fail("the chat template refuses calls: " + why);
    if (!writes_calls) fail("the chat template writes no calls of tools");
    fail("the chat template writes the arguments of calls in a way that cannot be read back");
  }

  bool find_other_arguments() {
    // The last name or id before the arguments.
    const auto probe = answer({.calls = {OrderedJson{{"vqkeya", 314151}}}});
    if (!probe) return false;
    const std::vector<Slot> slots = find_slots(*probe, 0);
    const std::size_t value = probe->find("314151");
    const auto before =
        static_cast<std::size_t>(std::ranges::count_if(slots, [&](const Slot& s) { return s.end <= value; }));
    if (before == 0) return false;
    const auto format = learn_arguments([&](const OrderedJson& arguments) -> std::optional<std::string> {
      const auto text = answer({.calls = {arguments}});
      if (!text) return std::nullopt;
      const std::vector<Slot> found = find_slots(*text, 0);
      if (found.size() < before) return std::nullopt;
      return text->substr(found[before - 1].end);
    });
    if (!format) return false;
    calls_.arguments = *format;
    return true;
  }

  OrderedJson arguments(std::size_t i) const {
    if (calls_.arguments.kind == ArgumentsFormat::Kind::json) return {{"vqkey" + std::to_string(i), 314151}};
    return {{"vqkeya", 314151 + static_cast<std::int64_t>(i)}};
  }

  /// Where the arguments of call `i` are, between its other parts.
  Slot arguments_slot(std::string_view text, std::size_t i) {
    if (calls_.arguments.kind == ArgumentsFormat::Kind::json) {
      const auto slot = find_object(text, arguments(i), read_json);
      if (!slot) fail("the chat template writes the arguments of two calls in different ways");
      return *slot;
    }
    const std::string value = std::to_string(314151 + i);
    std::size_t begin = 0;
    for (const Slot& s : find_slots(text, i)) begin = s.end < text.find(value) ? s.end : begin;
    std::size_t end = text.find(value) + value.size();
    // What the element puts after its value belongs to the arguments.
    bool is_after = false;
    for (const CallPart& part : calls_.arguments.members.of_other) {
      if (is_after) end += part.kind == CallPart::Kind::key ? std::string_view("vqkeya").size() : part.text.size();
      is_after = is_after || part.kind == CallPart::Kind::value;
    }
    return {begin, end, CallPart::Kind::arguments};
  }

  std::vector<Slot> slots(std::string_view text, std::size_t i) {
    std::vector<Slot> found = find_slots(text, i);
    if (found.empty()) return found;
    found.push_back(arguments_slot(text, i));
    std::ranges::sort(
        found, [](const Slot& a, const Slot& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    return found;
  }

  Written write(std::size_t n) {
    Probe probe;
    for (std::size_t i = 0; i < n; ++i) probe.calls.push_back(arguments(i));
    Written written;
    written.text = answer(probe).value_or("");
    written.first = slots(written.text, 0);
    if (n > 1 && !written.first.empty()) written.second = slots(written.text, 1);
    return written;
  }

  void learn_several() {
    const Written two = write(2);
    if (two.second.empty() || two.first.empty() || two.first.back().end > two.second.front().begin) return;
    const std::vector<CallPart> second = parts_of(two.text, two.second);
    if (parts_of(two.text, two.first) != calls_.parts || two.text.substr(two.second.back().end) != calls_.end) return;
    if (second != calls_.parts) {
      const auto numbered = with_numbers(calls_.parts, second);
      if (!numbered) return;
      calls_.parts = *numbered;
    }
    calls_.between = two.text.substr(two.first.back().end, two.second.front().begin - two.first.back().end);
    learn_first_number(std::string_view(two.text).substr(0, two.first.front().begin));
  }

  /// Makes a number before the first part of each call, 0 and 1, a part of the call.
  void learn_first_number(std::string_view begin) {
    std::string& between = *calls_.between;
    const auto differ = std::mismatch(begin.rbegin(), begin.rend(), between.rbegin(), between.rend());
    const auto size = static_cast<std::size_t>(differ.first - begin.rbegin());
    if (size == begin.size() || size == between.size() || *differ.first != '0' || *differ.second != '1') return;
    number_ = "0" + std::string(begin.substr(begin.size() - size));
    between.resize(between.size() - number_.size());
    calls_.parts.insert(calls_.parts.begin(), {CallPart::Kind::index});
    if (size > 0) calls_.parts.insert(calls_.parts.begin() + 1, {CallPart::Kind::text, number_.substr(1)});
  }

  /// The parts of two calls that differ in their numbers, 0 and 1; none if they differ in more.
  static std::optional<std::vector<CallPart>> with_numbers(const std::vector<CallPart>& first,
                                                           const std::vector<CallPart>& second) {
    if (first.size() != second.size()) return std::nullopt;
    std::vector<CallPart> parts;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::string &a = first[i].text, &b = second[i].text;
      if (first[i].kind != second[i].kind) return std::nullopt;
      if (a == b) {
        parts.push_back(first[i]);
        continue;
      }
      const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
      if (a.size() != b.size() || a[at] != '0' || b[at] != '1' || a.substr(at + 1) != b.substr(at + 1)) {
        return std::nullopt;
      }
      if (at > 0) parts.push_back({CallPart::Kind::text, a.substr(0, at)});
      parts.push_back({CallPart::Kind::index});
      if (at + 1 < a.size()) parts.push_back({CallPart::Kind::text, a.substr(at + 1)});
    }
    return parts;
  }

  /// What is before a call, without a reasoning and without the end of one.
  std::string lead(std::string_view text) const {
    if (format_.reasoning) text = after_last(text, format_.reasoning->end);
    return std::string(left_stripped(text));
  }

  void learn_begin(const Written& one) {
    const auto add = [&](std::string begin) {
      if (!begin.ends_with(number_)) return;
      begin.resize(begin.size() - number_.size());
      if (!begin.empty() && std::ranges::find(calls_.begins, begin) == calls_.begins.end()) {
        calls_.begins.push_back(std::move(begin));
      }
    };
    add(lead(std::string_view(one.text).substr(0, one.first.front().begin)));
    if (format_.reasoning) {
      const auto text = answer({.reasoning = std::string(kReasoning), .calls = {arguments(0)}});
      const std::size_t at = text ? text->find(kReasoning) : std::string::npos;
      const std::vector<Slot> found = text ? find_slots(*text, 0) : std::vector<Slot>();
      if (at != std::string::npos && !found.empty() && at < found.front().begin) {
        add(lead(std::string_view(*text).substr(at, found.front().begin - at)));
      }
    }
    if (calls_.begins.empty()) fail("nothing tells where a call begins");
    calls_.only_first = std::isalnum(static_cast<unsigned char>(calls_.begins[0][0])) != 0;
    calls_.only_first = calls_.only_first || calls_.begins[0].starts_with("{");
    const auto text = answer({.content = std::string(kContent), .calls = {arguments(0)}});
    const std::size_t at = text ? text->find(kContent) : std::string::npos;
    if (at != std::string::npos) {
      const std::vector<Slot> found = find_slots(*text, 0);
      if (!found.empty() && at < found.front().begin) {
        const std::size_t end = at + kContent.size();
        add(lead(std::string_view(*text).substr(end, found.front().begin - end)));
        calls_.only_first = false;
      }
    }
    std::ranges::sort(calls_.begins, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  }

  void learn_closing() {
    const std::string_view end = calls_.end;
    std::size_t size = end.size();
    if (calls_.between) {
      size = static_cast<std::size_t>(std::ranges::mismatch(end, *calls_.between).in1 - end.begin());
      size = mark_boundary(end, size);
    } else if (!format_.content_end.empty() && end.ends_with(format_.content_end)) {
      size -= format_.content_end.size();
    } else {
      size -= last_mark(end).size();
    }
    calls_.closing = right_stripped(end.substr(0, size));
  }

  /// Whether the template refuses a usual id.
  void learn_ids() {
    OrderedJson messages = probe_messages({.calls = {arguments(0)}}, calls_.form);
    messages.back()["tool_calls"][0]["id"] = "call_0123456789abcdefghijklmn";
    calls_.has_short_ids = !prober_.render(messages, true, false).has_value();
  }

  void learn_example() {
    const auto text = answer({.calls = {OrderedJson{{"city", "Paris"}}}});
    if (!text) return;
    std::string example(lead(*text));
    if (example.ends_with(format_.content_end)) example.resize(example.size() - format_.content_end.size());
    const std::string name = probe_name(0);
    for (std::size_t at = example.find(name); at != example.npos; at = example.find(name)) {
      example.replace(at, name.size(), "get_weather");
    }
    calls_.example = example;
  }

  Prober& prober_;
  const AnswerFormat& format_;
  CallFormat calls_;
  std::string number_;  // what is between the number of the first call, which is first in it, and its next part
};

}  // namespace

CallFormat learn_calls(Prober& prober, const AnswerFormat& format) { return CallLearner(prober, format).learn(); }

}  // namespace vitrine::answer
