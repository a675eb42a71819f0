#include "constrain/request.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "constrain/schema/ordered_json.h"
#include "tokenizer/read/base64.h"

namespace vitrine::constrain {
namespace {

using Kind = OrderedJson::Kind;
using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

const std::string& text_of(const OrderedJson& value, std::string_view where, std::string_view key) {
  if (!value.is(Kind::string)) throw BadInput(where, "expected a string for {}", key);
  return value.text;
}

bool truth_of(const OrderedJson& value, std::string_view where, std::string_view key) {
  if (!value.is(Kind::boolean)) throw BadInput(where, "expected true or false for {}", key);
  return value.truth;
}

std::int64_t number_of(const OrderedJson& value, std::string_view where, std::string_view key) {
  if (!value.is(Kind::number) || value.text.size() > 12 ||
      value.text.find_first_not_of("0123456789") != std::string::npos) {
    throw BadInput(where, "expected a whole number from 0 for {}", key);
  }
  return std::stoll(value.text);
}

std::vector<std::string> texts_of(const OrderedJson& list, std::string_view where) {
  if (!list.is(Kind::array)) throw BadInput(where, "expected a list of texts for choice");
  std::vector<std::string> texts;
  for (const OrderedJson& item : list.items) texts.push_back(text_of(item, where, "choice"));
  return texts;
}

/// Reads the member if it is the constraint.
bool read_source(const std::string& key, const OrderedJson& value, std::string_view where, Source& source) {
  if (key == "schema") {
    source.kind = Source::Kind::schema;
    source.text = json_text(value);
  } else if (key == "json_object") {
    if (!truth_of(value, where, key)) throw BadInput(where, "expected true for json_object");
    source.kind = Source::Kind::json_object;
  } else if (key == "regex" || key == "grammar") {
    source.kind = key == "regex" ? Source::Kind::regex : Source::Kind::grammar;
    source.text = text_of(value, where, key);
  } else if (key == "choice") {
    source.kind = Source::Kind::choice;
    source.choices = texts_of(value, where);
  } else {
    return false;
  }
  return true;
}

void read_member(const std::string& key, const OrderedJson& value, std::string_view where, Request& request) {
  if (key == "text") {
    request.text = text_of(value, where, key);
  } else if (key == "bytes") {
    const std::string& digits = text_of(value, where, key);
    const auto bytes = digits.empty() ? std::optional<std::string>("") : decode_padded_base64(digits);
    if (!bytes) throw BadInput(where, "expected base64 for bytes");
    request.text = *bytes;
  } else if (key == "ids") {
    request.ids.emplace();
    for (const OrderedJson& id : value.items)
      request.ids->push_back(static_cast<std::int32_t>(std::min<std::int64_t>(number_of(id, where, key), INT32_MAX)));
  } else if (key == "left") {
    request.left = number_of(value, where, key);
  } else if (key == "whitespace") {
    if (text_of(value, where, key) != "none") throw BadInput(where, "expected \"none\" for whitespace");
    request.source.has_white_space = false;
  } else if (key == "follow") {
    request.follows = truth_of(value, where, key);
  } else if (key == "mask") {
    request.wants_mask = truth_of(value, where, key);
  } else {
    throw BadInput(where, "unknown key \"{}\"", key);
  }
}

/// Tokens whose bytes are `text`: the tokenizer's own, or else the longest that fit, as far as there are any.
std::vector<std::int32_t> tokens_of(const std::string& text, const Tokenizer& tokenizer, const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, SpecialTokens::none);
  std::string spelled;
  for (const std::int32_t id : ids) spelled += vocabulary.bytes(id);
  if (spelled == text) return ids;
  ids.clear();
  for (std::size_t at = 0; at < text.size();) {
    std::int32_t best = -1;
    const auto trie = vocabulary.trie();
    std::int32_t node = 0;
    for (std::size_t i = at; i < text.size(); ++i) {
      std::int32_t child = node + 1;
      const std::int32_t end = trie[static_cast<std::size_t>(node)].end;
      while (child < end && trie[static_cast<std::size_t>(child)].byte != static_cast<std::uint8_t>(text[i])) {
        child = trie[static_cast<std::size_t>(child)].end;
      }
      if (child >= end) break;
      node = child;
      if (trie[static_cast<std::size_t>(node)].first_token >= 0)
        best = trie[static_cast<std::size_t>(node)].first_token;
    }
    if (best < 0) break;
    ids.push_back(best);
    at += vocabulary.bytes(best).size();
  }
  return ids;
}

/// Appends the tokens one by one, with the masks before each.
Json follow(Matcher& matcher, const std::vector<std::int32_t>& ids, std::optional<std::int64_t> left) {
  Json masks = Json::array();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto begin = Clock::now();
    std::optional<std::int64_t> left_here;
    if (left) left_here = *left + static_cast<std::int64_t>(ids.size() - i);
    const std::int64_t n_allowed = matcher.mask(left_here).count();
    masks.push_back({{"id", ids[i]}, {"n_allowed", n_allowed}, {"us", microseconds_since(begin)}});
    matcher.append(ids[i]);
  }
  return masks;
}

std::string_view state_name(Matcher::State state) {
  return state == Matcher::State::dead ? "dead" : state == Matcher::State::partial ? "partial" : "complete";
}

}  // namespace

Request parse_request(std::string_view json, std::string_view where) {
  const OrderedJson whole = parse_ordered_json(json, where);
  if (!whole.is(Kind::object)) throw BadInput(where, "expected a JSON object");
  Request request;
  int n_sources = 0, n_texts = 0;
  for (const auto& [key, value] : whole.members) {
    n_texts += key == "text" || key == "bytes" || key == "ids" ? 1 : 0;
    if (read_source(key, value, where, request.source)) {
      ++n_sources;
    } else {
      read_member(key, value, where, request);
    }
  }
  if (n_sources != 1)
    throw BadInput(where, "expected one of schema, json_object, regex, choice and grammar, got {}", n_sources);
  if (n_texts > 1) throw BadInput(where, "expected one of text, bytes and ids, got {}", n_texts);
  return request;
}

std::vector<std::string> parse_choices(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '[')
    return texts_of(parse_ordered_json(text, "choice"), "choice");
  std::vector<std::string> texts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) texts.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return texts;
}

Answer answer(const Request& request, const Tokenizer& tokenizer, std::shared_ptr<const Vocabulary> vocabulary) {
  const auto begin = Clock::now();
  const auto constraint = std::make_shared<const Constraint>(request.source, vocabulary);
  const double compile_us = microseconds_since(begin);
  Matcher matcher(constraint);
  Json result;
  Mask mask;
  if (request.follows) {
    const auto ids = request.ids ? *request.ids : tokens_of(request.text, tokenizer, *vocabulary);
    result["masks"] = follow(matcher, ids, request.left);
  } else if (request.ids) {
    for (const std::int32_t id : *request.ids) matcher.append(id);
  } else {
    matcher.append(request.text);
  }
  result["state"] = state_name(matcher.state());
  result["stops"] = matcher.is_complete();
  if (request.wants_mask) {
    const auto mask_begin = Clock::now();
    mask = matcher.mask(request.left);
    result["mask_us"] = microseconds_since(mask_begin);
    result["n_allowed"] = mask.count();
    result["allowed"] = encode_base64(mask.bytes());
  }
  result["forced"] = matcher.forced();
  const Length shortest = matcher.shortest();
  result["shortest"] = shortest < kNoWay ? Json(shortest) : Json(nullptr);
  result["compile_ms"] = compile_us / 1000;
  result["memory_bytes"] = constraint->memory_bytes();
  return {std::move(result), std::move(mask)};
}

}  // namespace vitrine::constrain
