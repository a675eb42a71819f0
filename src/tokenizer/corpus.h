// The text that a tokenizer or a model is trained on: files of text or JSON lines, read piece by piece, so that a
// corpus of any size takes a few megabytes of memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

struct CorpusOptions {
  /// Stands between the documents of a text file and belongs to none, nor do line breaks right before and behind it;
  /// "": none.
  std::string separator;
  std::vector<std::string> unbroken;   ///< Texts within which no piece ends (special tokens).
  std::size_t piece_bytes = 1U << 20;  ///< A longer document comes in several pieces.
};

/// The files that `paths` name: files as they are, folders as the .txt, .jsonl and .ndjson files below them, in the
/// order of their names. Throws BadInput where a path is missing or a folder has none.
std::vector<std::string> corpus_files(const std::vector<std::string>& paths);

/// Where a text that goes on may be cut so that its words stay whole: the last place in `text` where a space follows
/// what is no white space; else behind the last line break between two such; else between the last two characters. No
/// word of the patterns in use (GPT-2, cl100k, o200k, Llama 3, Qwen) has such a place within it. `text` is not empty,
/// and the place lies behind its front.
std::size_t last_cut(std::string_view text);

/// Reads documents in order, a piece at a time. A file that ends in .jsonl or .ndjson has a JSON object a line, whose
/// "text" is a document; any other is text: one document, or several between separators. Pieces are valid UTF-8, and
/// none is empty.
class CorpusReader {
 public:
  struct Piece {
    std::string text;
    bool begins_document = false;
  };

  CorpusReader(std::vector<std::string> files, CorpusOptions options);

  /// False at the end of the last file. Throws BadInput where a file cannot be read or is no UTF-8, BadCheckpoint for a
  /// line that is no JSON; both name the place.
  bool next(Piece& piece);

  /// Of all files: what was read, and what there is to read (0 where a file is a pipe).
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
  std::size_t slack_ = 0;  // what must be seen behind a piece
  std::size_t next_file_ = 0;
  std::ifstream file_;
  bool is_open_ = false, at_end_ = false, is_lines_ = false;
  bool begins_document_ = true, behind_separator_ = false;
  std::string buffer_;           // of the file, from where at_ stands
  std::size_t at_ = 0;           // what lies before it has been given out
  std::int64_t file_bytes_ = 0;  // before buffer_
  std::int64_t line_ = 0;
  std::string document_;  // of JSON lines, what is left of it from document_at_
  std::size_t document_at_ = 0;
  std::int64_t bytes_done_ = 0, bytes_total_ = 0;
};

}  // namespace vitrine
