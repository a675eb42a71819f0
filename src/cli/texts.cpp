#include "cli/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/lines.h"
#include "tokenizer/utf8.h"

namespace vitrine::cli {
namespace {}  // namespace

std::vector<std::string_view> lines_of(const MappedFile& file) {
  std::vector<std::string_view> lines = split(file.text(), '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty()) throw BadInput(file.path(), "expected lines of text, got an empty file");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_valid_utf8(lines[i])) throw BadInput(fmt::format("{}:{}", file.path(), i + 1), "expected text in UTF-8");
  }
  return lines;
}

TextReader::TextReader(const std::string& text, bool is_one_text)
    : from_stdin_(text == "-" && !is_one_text), is_one_text_(is_one_text) {
  if (!from_stdin_) input_ = is_one_text ? text : text + "\n";  // an empty text is a line, too
}

std::vector<std::string> TextReader::next(std::size_t most) {
  std::vector<std::string> texts;
  if (is_one_text_) {
    if (at_++ == 0) texts.push_back(input_);
    return texts;
  }
  while (texts.size() < most) {
    const std::size_t end = input_.find('\n', at_);
    if (end != std::string::npos) {
      texts.push_back(input_.substr(at_, end - at_));
      at_ = end + 1;
      continue;
    }
    input_.erase(0, std::exchange(at_, 0));
    if (from_stdin_ && !texts.empty()) break;  // the lines that have arrived are answered first
    if (from_stdin_ && read_stdin(input_)) continue;
    if (!input_.empty()) texts.push_back(std::exchange(input_, ""));
    break;
  }
  return texts;
}

std::pair<std::vector<std::string_view>, std::vector<std::string_view>> line_pairs(const MappedFile& first,
                                                                                   const MappedFile& second) {
  std::pair lines{lines_of(first), lines_of(second)};
  if (lines.first.size() != lines.second.size()) {
    throw BadInput(first.path(), "expected {} lines, as many as in {}, got {}", lines.second.size(), second.path(),
                   lines.first.size());
  }
  return lines;
}

std::vector<std::string> read_documents(const std::string& path) {
  std::vector<std::string> documents;
  if (path != "-") {
    const auto file = MappedFile::open(path);
    for (const std::string_view line : lines_of(*file)) documents.emplace_back(line);
    return documents;
  }
  TextReader reader("-", false);
  for (auto lines = reader.next(1); !lines.empty(); lines = reader.next(1)) documents.push_back(lines.front());
  return documents;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::vector<std::int32_t> ids_of_line(const Session& session, const Options& o, bool is_json, const std::string& line,
                                      std::int64_t number,
                                      const std::function<std::string(const std::string&)>& prepare) {
  const std::string where = fmt::format("line {}", number);
  const auto encode = [&](const std::string& text) {
    if (session.tokenizer == nullptr) throw BadInput(where, "no tokenizer was opened: give ids, or --tokenizer");
    return session.tokenizer->encode(prepare ? prepare(text) : text,
                                     o.no_special ? SpecialTokens::none : SpecialTokens::apply);
  };
  if (!is_json) return encode(line);
  const Json json = parse_json(line, where);
  if (json.is_string()) return encode(json.get<std::string>());
  std::vector<std::int32_t> ids;
  const auto is_id = [](const Json& id) {
    return id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
  };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_id)) {
    throw BadInput(where, "expected a JSON string or a list of ids");
  }
  for (const Json& id : json) ids.push_back(id.get<std::int32_t>());
  return ids;
}

}  // namespace vitrine::cli
