#include "answer/call_reader.h"

#include <algorithm>

namespace vitrine::answer {
namespace {

const OrderedJson kNoSchema;

/// What a tool declares; null if it is none.
const OrderedJson* declaration(const OrderedJson& tool) {
  const OrderedJson& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
  const bool is_one = function.is_object() && function.contains("name") && function["name"].is_string();
  return is_one ? &function : nullptr;
}

}  // namespace

Match CallReader::read(std::string_view text, bool is_last) {
  Match read = Match::yes;
  for (; i_ < format_->parts.size(); ++i_) {
    read = part(format_->parts[i_], text, is_last);
    if (read != Match::yes) break;
  }
  return read == Match::partial && is_last ? Match::no : read;
}

/// What follows the part that is read.
std::string_view CallReader::after_part() const {
  return i_ + 1 < format_->parts.size() ? format_->parts[i_ + 1].text : format_->closing;
}

/// The longest name of a tool is the one that is meant.
Match CallReader::read_name(std::string_view rest, bool is_last) {
  for (const OrderedJson& tool : *tools_) {
    const OrderedJson* const function = declaration(tool);
    if (function == nullptr) continue;
    const std::string& name = (*function)["name"].get_ref<const std::string&>();
    const Match found = match(rest, name, is_last);
    if (found == Match::partial) {
      name_.clear();
      return Match::partial;
    }
    if (found == Match::no || name.size() <= name_.size()) continue;
    name_ = name;
    parameters_ = function->contains("parameters") ? &(*function)["parameters"] : nullptr;
  }
  at_ += name_.size();
  return name_.empty() ? Match::no : Match::yes;
}

Match CallReader::part(const CallPart& part, std::string_view text, bool is_last) {
  const std::string_view rest = text.substr(at_);
  switch (part.kind) {
    case CallPart::Kind::name: {
      if (name_.empty()) return read_name(rest, is_last);
      const Match again = match(rest, name_, is_last);
      if (again == Match::yes) at_ += name_.size();
      return again;
    }
    case CallPart::Kind::id: {
      const std::size_t size = after_part().empty() ? 0 : rest.find(after_part());
      if (size == rest.npos) return Match::partial;
      id_ = rest.substr(0, size);
      at_ += size;
      return size == 0 ? Match::no : Match::yes;
    }
    case CallPart::Kind::index: {
      const std::size_t size = std::min(rest.find_first_not_of("0123456789"), rest.size());
      if (size == rest.size() && !is_last) return Match::partial;
      at_ += size;
      return size == 0 ? Match::no : Match::yes;
    }
    case CallPart::Kind::arguments: {
      if (!arguments_) arguments_.emplace(format_->arguments, parameters_ ? *parameters_ : kNoSchema, after_part());
      const Match found = arguments_->read(text, at_, is_last, json_);
      // Nobody has seen them yet.
      if (found == Match::yes && !is_known() && !OrderedJson::accept(json_)) return Match::no;
      return found;
    }
    default: {
      const Match found = match(rest, part.text, is_last);
      if (found == Match::yes) at_ += part.text.size();
      return found;
    }
  }
}

Match take_end(const CallFormat& format, std::string_view& text, bool is_last) {
  const Match found = match(text, format.end, is_last);
  if (found == Match::partial) return found;
  if (take(text, found == Match::yes ? format.end : format.closing)) {
    // What ends the calls may be the end of the answer.
    if (found == Match::no && std::string_view(format.end).substr(format.closing.size()).starts_with(text)) text = {};
    return Match::yes;
  }
  return Match::no;
}

}  // namespace vitrine::answer
