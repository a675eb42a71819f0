// HTML in text: markupsafe's striptags() and unescape(), and jinja2's urlize.
#include <algorithm>
#include <set>

#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// The text of the entity at the front of `text` ("&lt;…"), and its length; 0 if there is none.
std::size_t read_entity(std::string_view text, std::string& out) {
  static constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", "\u00a0"}};
  const std::size_t end = text.find(';');
  if (end == text.npos || end > 12) return 0;
  std::string_view name = text.substr(1, end - 1);
  if (name.size() > 1 && name[0] == '#') {
    const bool is_hex = (name[1] | 0x20) == 'x';
    const auto code = parse_integer(name.substr(is_hex ? 2 : 1), is_hex ? 16 : 10);
    if (!code || *code < 0) return 0;
    append_character(out, *code == 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)
                              ? 0xFFFD
                              : static_cast<char32_t>(*code));
    return end + 1;
  }
  for (const auto& [known, value] : kNamed) {
    if (name == known) {
      out += value;
      return end + 1;
    }
  }
  return 0;
}

void remove_between(std::string& text, std::string_view open, std::string_view close) {
  for (std::size_t start = text.find(open); start != text.npos; start = text.find(open, start)) {
    const std::size_t end = text.find(close, start);
    if (end == text.npos) return;
    text.erase(start, end + close.size() - start);
  }
}

/// Finds web addresses in words: jinja2.utils.urlize.
class Urlize {
 public:
  Urlize(std::int64_t limit, std::string attributes, std::vector<std::string> schemes)
      : limit_(limit), attributes_(std::move(attributes)), schemes_(std::move(schemes)) {}

  std::string run(const std::string& text) const {
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      const bool space = is_space(next_character(text, end));
      for (std::size_t next = end; next < text.size() && is_space(next_character(text, next)) == space;) end = next;
      const std::string word = text.substr(begin, end - begin);
      out += space ? word : linked(word);
      begin = end;
    }
    return out;
  }

 private:
  std::string linked(const std::string& word) const {
    std::string middle = word, head, tail;
    while (true) {
      const std::size_t size = middle.rfind("&lt;", 0) == 0                                ? 4
                               : !middle.empty() && (middle[0] == '(' || middle[0] == '<') ? 1
                                                                                           : 0;
      if (size == 0) break;
      head += middle.substr(0, size);
      middle.erase(0, size);
    }
    while (true) {
      const bool is_entity = middle.size() >= 4 && middle.compare(middle.size() - 4, 4, "&gt;") == 0;
      const std::size_t size =
          is_entity                                                                                     ? 4
          : !middle.empty() && std::string_view(")>.,\n").find(middle.back()) != std::string_view::npos ? 1
                                                                                                        : 0;
      if (size == 0) break;
      tail.insert(0, middle.substr(middle.size() - size));
      middle.erase(middle.size() - size);
    }
    balance(middle, tail, "(", ")");
    balance(middle, tail, "<", ">");
    balance(middle, tail, "&lt;", "&gt;");
    return head + link(middle) + tail;
  }

  /// Moves closing marks back from the tail while the middle has more opening ones.
  static void balance(std::string& middle, std::string& tail, std::string_view open, std::string_view close) {
    const auto count = [](std::string_view text, std::string_view mark) {
      std::size_t n = 0;
      for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + mark.size())) ++n;
      return n;
    };
    const std::size_t opened = count(middle, open);
    if (opened <= count(middle, close)) return;
    for (std::size_t i = 0, n = std::min(opened, count(tail, close)); i < n; ++i) {
      const std::size_t end = tail.find(close) + close.size();
      middle += tail.substr(0, end);
      tail.erase(0, end);
    }
  }

  std::string shortened(const std::string& text) const {
    if (limit_ < 0 || count_characters(text) <= limit_) return text;
    return std::string(characters(text, 0, limit_)) + "...";
  }

  std::string link(const std::string& word) const {
    if (is_address(word)) {
      const bool has_scheme = word.rfind("https://", 0) == 0 || word.rfind("http://", 0) == 0;
      return "<a href=\"" + std::string(has_scheme ? "" : "https://") + word + "\"" + attributes_ + ">" +
             shortened(word) + "</a>";
    }
    if (word.rfind("mailto:", 0) == 0 && is_mail(word.substr(7))) {
      return "<a href=\"" + word + "\">" + word.substr(7) + "</a>";
    }
    if (word.find('@') != word.npos && word.rfind("www.", 0) != 0 && word[0] != '@' && word.find(':') == word.npos &&
        is_mail(word)) {
      return "<a href=\"mailto:" + word + "\">" + word + "</a>";
    }
    for (const std::string& scheme : schemes_) {
      if (word != scheme && word.rfind(scheme, 0) == 0) {
        return "<a href=\"" + word + "\"" + attributes_ + ">" + word + "</a>";
      }
    }
    return word;
  }

  /// ^\S+@\w[\w.-]*\.\w+$
  static bool is_mail(std::string_view word) {
    for (std::size_t at = word.find('@', 1); at != word.npos; at = word.find('@', at + 1)) {
      const std::u32string host = code_points(word.substr(at + 1));
      const std::size_t dot = host.rfind(U'.');
      if (host.empty() || dot == host.npos || dot == 0 || dot + 1 == host.size() || !is_word(host[0])) continue;
      const bool fits =
          std::all_of(host.begin(), host.end(), [](char32_t c) { return is_word(c) || c == '.' || c == '-'; }) &&
          std::all_of(host.begin() + static_cast<std::ptrdiff_t>(dot) + 1, host.end(), is_word);
      if (fits) return true;
    }
    return false;
  }

  /// An http address with any host, or a host with a well-known ending; then a port, a path, a query or a fragment.
  static bool is_address(const std::string& word) {
    std::string rest = lower(word);
    const bool has_scheme = rest.rfind("http://", 0) == 0 || rest.rfind("https://", 0) == 0;
    if (has_scheme) rest.erase(0, rest.find("//") + 2);
    if (!has_scheme && rest.rfind("www.", 0) == 0 && host_fits(rest.substr(4), {})) return true;
    if (!has_scheme) return host_fits(rest, {"com", "net", "int", "edu", "gov", "org", "info", "mil"});
    if (rest.rfind("localhost", 0) == 0 && ending_fits(rest.substr(9))) return true;
    return host_fits(rest, {});
  }
  static bool host_fits(const std::string& text, const std::vector<std::string>& endings) {
    const std::size_t end = std::min(text.find_first_of(":/?#"), text.size());
    const std::u32string host = code_points(text.substr(0, end));
    if (host.empty() || !ending_fits(text.substr(end))) return false;
    const std::size_t dot = host.rfind(U'.');
    if (dot == host.npos || dot == 0 || dot + 1 == host.size()) return false;
    if (!std::all_of(host.begin(), host.end(), [](char32_t c) { return is_word(c) || c == '.' || c == '-'; }))
      return false;
    if (endings.empty()) return true;
    return std::find(endings.begin(), endings.end(), from_code_points(host.substr(dot + 1))) != endings.end();
  }
  static bool ending_fits(std::string_view rest) {
    if (!rest.empty() && rest[0] == ':') {
      std::size_t end = 1;
      while (end < rest.size() && rest[end] >= '0' && rest[end] <= '9') ++end;
      if (end == 1 || end > 6) return false;
      rest.remove_prefix(end);
    }
    return rest.empty() || rest[0] == '/' || rest[0] == '?' || rest[0] == '#';
  }

  std::int64_t limit_;
  std::string attributes_;
  std::vector<std::string> schemes_;
};

}  // namespace

std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t used = text[0] == '&' ? read_entity(text, out) : 0;
    if (used == 0) out += text[0];
    text.remove_prefix(std::max<std::size_t>(used, 1));
  }
  return out;
}

std::string without_tags(std::string_view text) {
  std::string plain(text);
  remove_between(plain, "<!--", "-->");
  remove_between(plain, "<", ">");
  std::string joined;
  for (std::string_view rest = strip(plain, true, true); !rest.empty(); rest = strip(rest, true, false)) {
    std::size_t end = 0;
    while (end < rest.size()) {
      std::size_t next = end;
      if (is_space(next_character(rest, next))) break;
      end = next;
    }
    if (!joined.empty()) joined += ' ';
    joined += rest.substr(0, end);
    rest.remove_prefix(end);
  }
  return unescaped(joined);
}

Value filter_urlize(Renderer& r, Arguments& a) {
  const auto [value, limit, nofollow, target, rel, schemes] =
      a.bind<6>("do_urlize", {"value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes"}, 1);
  std::set<std::string> rels = {"noopener"};
  if (rel.is_string()) {
    std::string_view rest = strip(rel.text(), true, true);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      rels.emplace(rest.substr(0, end));
      rest = strip(rest.substr(end), true, false);
    }
  }
  if (is_true(nofollow)) rels.insert("nofollow");
  std::string joined;
  for (const std::string& one : rels) joined += (joined.empty() ? "" : " ") + one;
  std::string attributes = " rel=\"" + escaped(joined) + "\"";
  if (!target.is_missing() && !target.is_none()) attributes += " target=\"" + escaped(str(target)) + "\"";
  std::vector<std::string> extra;
  if (!schemes.is_missing() && !schemes.is_none()) {
    for (const Value& scheme : r.items(schemes)) extra.push_back(str(scheme));
  }
  const std::int64_t size = limit.is_missing() || limit.is_none() ? -1 : to_index(limit);
  const std::string text = value.is_markup() ? std::string(value.text()) : escaped(r.str_of(value));
  return r.text(Urlize(size, attributes, extra).run(text), r.autoescape());
}

}  // namespace vitrine::jinja
