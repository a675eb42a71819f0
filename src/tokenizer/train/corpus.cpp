#include "tokenizer/train/corpus.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;

bool is_lines(const fs::path& path) { return path.extension() == ".jsonl" || path.extension() == ".ndjson"; }

/// Whether a character other than white space ends at `at`.
bool word_ends(std::string_view text, std::size_t at) {
  return at != 0 && !is_white_space(code_point(text.substr(last_character(text.substr(0, at)))));
}

/// Whether a character other than white space begins at `at`.
bool word_begins(std::string_view text, std::size_t at) {
  return at < text.size() && !is_white_space(code_point(text.substr(at, length_by_lead(text[at]))));
}

}  // namespace

std::vector<std::string> corpus_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) throw BadInput(path, "no such file or folder");
    if (!fs::is_directory(status)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    fs::recursive_directory_iterator entry(path, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      const fs::path& name = entry->path();
      if ((is_lines(name) || name.extension() == ".txt") && entry->is_regular_file()) found.push_back(name.string());
    }
    if (error) throw BadInput(path, "cannot read the folder: {}", error.message());
    if (found.empty()) throw BadInput(path, "expected .txt, .jsonl or .ndjson files in this folder, found none");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::size_t last_cut(std::string_view text) {
  for (std::size_t at = text.size() - 1; at > 0; --at) {
    if (text[at] == ' ' && word_ends(text, at)) return at;
  }
  for (std::size_t at = text.size() - 1; at > 1; --at) {
    if (text[at - 1] == '\n' && word_ends(text, at - 1) && word_begins(text, at)) return at;
  }
  const std::size_t at = last_character(text);
  return at > 0 ? at : text.size();
}

CorpusReader::CorpusReader(std::vector<std::string> files, CorpusOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  slack_ = std::max<std::size_t>(options_.separator.size(), 4);
  for (const std::string& text : options_.unbroken) slack_ = std::max(slack_, text.size());
  options_.piece_bytes = std::max<std::size_t>(options_.piece_bytes, 8);
  for (const std::string& path : files_) {
    std::error_code error;
    const auto size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
    if (!error) bytes_total_ += static_cast<std::int64_t>(size);
  }
}

bool CorpusReader::next(Piece& piece) {
  for (;;) {
    if (!is_open_ && !open_next()) return false;
    if (is_lines_ ? next_of_lines(piece) : next_of_text(piece)) return true;
    file_.close();
    is_open_ = false;
  }
}

bool CorpusReader::open_next() {
  if (next_file_ == files_.size()) return false;
  const std::string& path = files_[next_file_++];
  std::error_code error;
  if (fs::is_directory(path, error)) throw BadInput(path, "expected a file of text, got a folder");
  errno = 0;
  file_.clear();
  file_.open(path, std::ios::binary);
  if (!file_) throw BadInput(path, "cannot read: {}", std::generic_category().message(errno != 0 ? errno : EIO));
  is_open_ = true;
  is_lines_ = is_lines(path);
  at_end_ = false;
  begins_document_ = true;
  after_separator_ = false;
  buffer_.clear();
  at_ = 0;
  file_bytes_ = line_ = 0;
  return true;
}

/// Reads until rest() has at least `wanted` bytes or the file ends.
void CorpusReader::fill(std::size_t wanted) {
  if (at_end_ || buffer_.size() - at_ >= wanted) return;
  buffer_.erase(0, at_);
  file_bytes_ += static_cast<std::int64_t>(at_);
  at_ = 0;
  const std::size_t have = buffer_.size();
  buffer_.resize(std::max(wanted, have + 2 * options_.piece_bytes));
  file_.read(buffer_.data() + have, static_cast<std::streamsize>(buffer_.size() - have));
  const auto n = static_cast<std::size_t>(file_.gcount());
  buffer_.resize(have + n);
  bytes_done_ += static_cast<std::int64_t>(n);
  if (file_.bad()) throw BadInput(files_[next_file_ - 1], "cannot read: the system reports an error");
  at_end_ = file_.eof();
}

void CorpusReader::check_utf8(std::string_view text) const {
  const std::size_t valid = valid_prefix(text);
  if (valid == text.size()) return;
  const std::string& path = files_[next_file_ - 1];
  throw BadInput(path, "expected UTF-8, got the byte 0x{:02X} at byte {}",
                 static_cast<unsigned>(static_cast<unsigned char>(text[valid])),
                 file_bytes_ + static_cast<std::int64_t>(at_ + valid));
}

/// The length of the next piece of `text`, which does not end with it. `text` is valid UTF-8 at least up to slack_
/// bytes beyond piece_bytes.
std::size_t CorpusReader::cut_place(std::string_view text) const {
  std::size_t cut = last_cut(text.substr(0, whole_prefix(text.substr(0, options_.piece_bytes))));
  for (const std::string& whole : options_.unbroken) {
    const std::size_t from = cut - std::min(cut, whole.size() - 1);
    const std::size_t found = text.substr(0, cut + whole.size() - 1).find(whole, from);
    if (found < cut) cut = found > 0 ? found : found + whole.size();
  }
  return cut;
}

/// Takes a piece from `text`, the rest of a document. Returns whether the document ends with the piece.
bool CorpusReader::take(std::string_view text, Piece& piece) {
  const bool ends = text.size() <= options_.piece_bytes + slack_;
  piece.text.assign(ends ? text : text.substr(0, cut_place(text)));
  piece.begins_document = std::exchange(begins_document_, ends);
  return ends;
}

bool CorpusReader::next_of_text(Piece& piece) {
  const std::string& separator = options_.separator;
  for (;;) {
    const std::size_t window = options_.piece_bytes + 2 * slack_ + 1;  // longer than the limit of take()
    fill(window + separator.size());
    if (std::exchange(after_separator_, false) && rest().starts_with('\n')) ++at_;
    std::string_view text = rest().substr(0, window);
    if (text.empty()) return false;
    std::size_t end = text.npos;
    if (!separator.empty()) end = rest().substr(0, window + separator.size()).find(separator);
    const bool at_separator = end != text.npos && end <= window;
    if (at_separator) text = text.substr(0, end);
    if (at_separator && text.ends_with('\n')) text.remove_suffix(1);
    const bool is_whole = at_separator || (at_end_ && text.size() == rest().size());
    check_utf8(is_whole ? text : text.substr(0, whole_prefix(text)));
    const bool is_empty = text.empty();  // a document without text, or only a separator remained
    const bool ends = is_empty || take(text, piece);
    at_ += ends && at_separator ? end + separator.size() : piece.text.size();
    if (ends && at_separator) begins_document_ = after_separator_ = true;
    if (!is_empty) return true;
  }
}

bool CorpusReader::next_of_lines(Piece& piece) {
  const std::string& path = files_[next_file_ - 1];
  while (document_at_ == document_.size()) {
    std::size_t end = rest().find('\n');
    for (std::size_t wanted = options_.piece_bytes; end == std::string_view::npos && !at_end_; wanted *= 2) {
      if (rest().size() > kMaxLineBytes) throw BadInput(path, "expected lines of at most {} bytes", kMaxLineBytes);
      const std::size_t searched = rest().size();
      fill(wanted);
      end = rest().find('\n', searched);
    }
    if (rest().empty()) return false;
    const std::string_view line = rest().substr(0, end);
    ++line_;
    if (line.find_first_not_of(" \t\r") != line.npos) {
      const std::string where = path + ", line " + std::to_string(line_);
      const Json object = parse_json(line, where);
      const auto text = object.is_object() ? object.find("text") : object.end();
      if (!object.is_object() || text == object.end() || !text->is_string()) {
        throw BadInput(where, "expected an object with a \"text\", got {}", object.type_name());
      }
      document_ = text->get<std::string>();
      document_at_ = 0;
      begins_document_ = true;
    }
    at_ += std::min(line.size() + 1, rest().size());
  }
  const bool ends = take(std::string_view(document_).substr(document_at_), piece);
  document_at_ = ends ? document_.size() : document_at_ + piece.text.size();
  return true;
}

}  // namespace vitrine
