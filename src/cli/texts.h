// Texts from the command line or from the lines of stdin.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "cli/options.h"

namespace vitrine::cli {

/// The lines of stdin, if `text` is `-`, else those of `text`, or `text` as one.
class TextReader {
 public:
  TextReader(const std::string& text, bool is_one_text);

  /// At most `most` of the texts that have arrived; none at the end. Waits for the first.
  std::vector<std::string> next(std::size_t most);

 private:
  bool from_stdin_, is_one_text_;
  std::string input_;
  std::size_t at_ = 0;
};

/// The lines of a file, with or without a line break after the last one. Throws BadInput if there are none, or for a
/// line that is not UTF-8.
std::vector<std::string_view> lines_of(const MappedFile& file);

/// The lines of two files, with or without a line break after the last one. Throws BadInput if there are none, if one
/// file has more than the other, or for a line that is not UTF-8.
std::pair<std::vector<std::string_view>, std::vector<std::string_view>> line_pairs(const MappedFile& first,
                                                                                   const MappedFile& second);

/// The lines of a file or, of `-`, of stdin.
std::vector<std::string> read_documents(const std::string& path);

/// The text with spaces for line breaks: a line for a line.
std::string one_line(std::string text);

/// The ids of a line: those of its text; with `is_json`, of the string or the list of ids that it holds as JSON.
/// `prepare`, if there is one, makes the text that is tokenized. Throws BadInput for any other JSON, naming the line.
std::vector<std::int32_t> ids_of_line(const Session& session, const Options& options, bool is_json,
                                      const std::string& line, std::int64_t number,
                                      const std::function<std::string(const std::string&)>& prepare = {});

}  // namespace vitrine::cli
