#include "tokenizer/read/bert_vocab.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/read/tokenizer_document.h"
#include "tokenizer/utf8.h"

namespace vitrine {

PieceTable parse_vocab_lines(std::string_view text, std::string_view path) {
  if (text.size() > kMaxTokenizerBytes) {
    throw Unsupported(path, "a vocabulary of more than {} bytes is not supported, got {}", kMaxTokenizerBytes,
                      text.size());
  }
  if (!is_valid_utf8(text)) throw BadCheckpoint(path, "expected UTF-8, got other bytes");
  PieceTable pieces;
  for (std::int32_t id = 0; !text.empty(); ++id) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (id > PieceTable::kMaxId) throw BadCheckpoint(path, "expected at most {} lines", PieceTable::kMaxId);
    if (line.empty() || pieces.add(line, id)) continue;
    throw BadCheckpoint(path, "lines {} and {} have the same piece \"{}\"", pieces.find(line) + 1, id + 1, line);
  }
  return pieces;
}

}  // namespace vitrine
