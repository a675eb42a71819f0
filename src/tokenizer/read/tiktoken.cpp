#include "tokenizer/read/tiktoken.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/algorithms/bpe.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/split.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxRanksBytes = std::size_t{64} << 20;  // the largest published files have 4 MB
constexpr std::size_t kMaxRanks = std::size_t{1} << 19;
constexpr std::size_t kMaxRankBytes = 4096;

/// Llama 3's pattern (meta-llama/llama3, llama/tokenizer.py), which is also that of cl100k_base in its first version
/// (tiktoken, openai_public.py; the current one is equivalent).
std::string_view published_pattern(std::size_t n_ranks, std::string_view path) {
  if (n_ranks == 100256 || n_ranks == 128000) return gguf_pre_tokenizer("llama3", path).patterns.front();
  throw BadInput(path, "expected 100256 ranks (cl100k) or 128000 (Llama 3), got {}; give the regex with --pattern",
                 n_ranks);
}

class TiktokenTokenizer final : public Tokenizer {
 public:
  TiktokenTokenizer(Bpe bpe, Regex pattern) : bpe_(std::move(bpe)), pattern_(std::move(pattern)) {}

  std::string piece(std::int32_t id) const override { return bytes(id); }
  std::string bytes(std::int32_t id) const override {
    checked_index(id);
    return std::string(bpe_.pieces().piece(id));
  }
  std::int64_t vocab_size() const override { return bpe_.pieces().size(); }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

 private:
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                   EncodingRecorder* recorder) const override;
  void encode_valid(std::string_view text, Bpe::Workspace& workspace, std::vector<std::int32_t>& ids) const;

  Bpe bpe_;
  Regex pattern_;
  mutable ObjectPool<Bpe::Workspace> workspaces_;
  std::vector<std::int32_t> stop_ids_;
};

std::vector<std::int32_t> TiktokenTokenizer::encode(std::string_view text, const SpecialRule& /*rule*/,
                                                    EncodingRecorder* recorder) const {
  std::vector<std::int32_t> ids;
  const auto workspace = workspaces_.lease();
  workspace->recorder = recorder;
  const std::string cuts[] = {"pattern"};
  for_each_valid_run(
      text,
      [&](std::string_view valid) {
        if (recorder != nullptr) {
          recorder->part(valid);
          recorder->begin_cuts(cuts);
        }
        encode_valid(valid, *workspace, ids);
      },
      [&](char invalid) {
        const std::string_view byte(&invalid, 1);
        record_word(recorder, byte, ids, [&] { bpe_.encode(byte, *workspace, ids); });
      });
  return ids;
}

/// tiktoken drops text that its pattern does not match. Published patterns match all text; others must, too.
void TiktokenTokenizer::encode_valid(std::string_view text, Bpe::Workspace& workspace,
                                     std::vector<std::int32_t>& ids) const {
  std::size_t end = 0;
  const auto expect_match = [&](std::size_t begin) {
    if (begin == end) return;
    throw BadInput("--pattern", "expected a regex that matches all of the text, got a gap at byte {}", end);
  };
  pattern_.for_each_match(text, [&](Regex::Match match) {
    expect_match(match.begin);
    const std::string_view word = text.substr(match.begin, match.end - match.begin);
    if (workspace.recorder != nullptr) workspace.recorder->pre_token(0, word);
    record_word(workspace.recorder, word, ids, [&] { bpe_.encode(word, workspace, ids); });
    end = match.end;
  });
  expect_match(text.size());
}

}  // namespace

PieceTable parse_ranks(std::string_view file, std::string_view path) {
  if (file.size() > kMaxRanksBytes) {
    throw BadCheckpoint(path, "expected ranks of at most {} bytes, got {}", kMaxRanksBytes, file.size());
  }
  PieceTable pieces;
  for (std::size_t number = 1; !file.empty(); ++number) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;

    const std::size_t space = std::min(line.find(' '), line.size());
    const std::optional<std::string> piece = decode_padded_base64(line.substr(0, space));
    if (!piece || piece->empty() || piece->size() > kMaxRankBytes) {
      throw BadCheckpoint(path, "expected base64 of 1 to {} bytes at line {}, got something else", kMaxRankBytes,
                          number);
    }
    const auto rank = number_in<std::int32_t>(line.substr(std::min(space + 1, line.size())));
    if (!rank || *rank < 0 || static_cast<std::size_t>(*rank) >= kMaxRanks) {
      throw BadCheckpoint(path, "expected a rank from 0 to {} at line {}, got something else", kMaxRanks - 1, number);
    }
    if (!pieces.add(*piece, *rank)) {
      throw BadCheckpoint(path, "the piece or the rank at line {} appears twice", number);
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (pieces.find(std::string_view(&c, 1)) == kNoId) {
      throw BadCheckpoint(path, "expected a rank for every byte, got none for {}", byte);
    }
  }
  return pieces;
}

std::unique_ptr<const Tokenizer> parse_tiktoken(std::string_view file, std::string_view pattern,
                                                std::string_view path) {
  PieceTable pieces = parse_ranks(file, path);
  Regex regex = pattern.empty() ? Regex(published_pattern(static_cast<std::size_t>(pieces.n_pieces()), path),
                                        RegexSyntax::rust, path)
                                : Regex(pattern, RegexSyntax::rust, "--pattern");
  BpeOptions options;
  options.symbols = BpeOptions::Symbols::bytes;
  options.ignore_merges = true;
  return std::make_unique<TiktokenTokenizer>(Bpe::from_ranks(std::move(pieces), std::move(options), path),
                                             std::move(regex));
}

}  // namespace vitrine
