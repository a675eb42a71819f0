// Reads a training corpus, files of text or JSON Lines, in pieces, so that a corpus of any size takes only a few
// megabytes of memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

struct CorpusOptions {
  /// Separates the documents of a text file; "": a file is one document. The separator and a line break directly before
  /// or after it belong to no document.
  std::string separator;
  std::vector<std::string> unbroken;   ///< Texts, such as special tokens, that are never divided between pieces.
  std::size_t piece_bytes = 1U << 20;  ///< A longer document is returned in several pieces.
};

/// Expands `paths`: a folder becomes the .txt, .jsonl and .ndjson files below it, sorted by name. Throws BadInput if a
/// path does not exist or a folder has no such files.
std::vector<std::string> corpus_files(const std::vector<std::string>& paths);

/// The offset at which to cut `text`, the beginning of a longer text: before the last space that follows a character
/// other than white space; if there is none, after the last line break between two such characters; if there is none,
/// before the last character, which may divide a word. The patterns in use (GPT-2, cl100k, o200k, Llama 3, Qwen) match
/// no word across the first two. `text` must not be empty; the offset is greater than 0.
std::size_t last_cut(std::string_view text);

/// Reads documents in order, one piece at a time. In a .jsonl or .ndjson file each line is a JSON object whose "text"
/// is a document. Any other file is text: one document, or several with separators between them. Pieces are valid UTF-8
/// and never empty.
class CorpusReader {
 public:
  struct Piece {
    std::string text;
    bool begins_document = false;
  };

  CorpusReader(std::vector<std::string> files, CorpusOptions options);

  /// Returns false at the end of the last file. Throws BadInput if a file cannot be read, is not UTF-8, or has a line
  /// without a "text"; BadCheckpoint for a line that is not JSON. Both name the place.
  bool next(Piece& piece);

  /// The bytes read so far and the total size of all files, where a pipe counts as 0.
  std::int64_t bytes_done() const { return bytes_done_; }
  std::int64_t bytes_total() const { return bytes_total_; }

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  bool open_next();
  void fill(std::size_t wanted);
  bool next_of_text(Piece& piece);
  bool next_of_lines(Piece& piece);
  std::size_t cut_place(std::string_view text) const;
  bool take(std::string_view text, Piece& piece);
  void check_utf8(std::string_view text) const;

  std::vector<std::string> files_;
  CorpusOptions options_;
  std::size_t slack_ = 0;  // bytes after a piece that must be read to choose its end
  std::size_t next_file_ = 0;
  std::ifstream file_;
  bool is_open_ = false, at_end_ = false, is_lines_ = false;
  bool begins_document_ = true, after_separator_ = false;
  std::string buffer_;           // bytes of the file
  std::size_t at_ = 0;           // the offset in buffer_ of the first byte that has not been returned
  std::int64_t file_bytes_ = 0;  // the offset of buffer_ in the file
  std::int64_t line_ = 0;
  std::string document_;  // of JSON Lines; the bytes before document_at_ have been returned
  std::size_t document_at_ = 0;
  std::int64_t bytes_done_ = 0, bytes_total_ = 0;
};

}  // namespace vitrine
