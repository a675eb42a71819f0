#include "tokenizer/tiktoken.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/bpe.h"
#include "tokenizer/split.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;  // the largest in use have 4 MB
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxRanks = std::size_t{1} << 19;
constexpr std::size_t kMaxRankBytes = 4096;

// cl100k_base's pattern as tiktoken had it first (openai_public.py; the later spelling is faster and equal), and that
// of Llama 3 (meta-llama/llama3, llama/tokenizer.py), which is the same.
constexpr std::string_view kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string_view published_pattern(std::size_t n_ranks, std::string_view path) {
  if (n_ranks == 100256 || n_ranks == 128000) return kCl100kPattern;
  throw BadInput(path, "expected 100256 ranks (cl100k) or 128000 (Llama 3), got {}; give the regex with --pattern",
                 n_ranks);
}

class TiktokenTokenizer final : public Tokenizer {
 public:
  TiktokenTokenizer(Bpe bpe, Regex pattern) : bpe_(std::move(bpe)), pattern_(std::move(pattern)) {}

  std::string piece(std::int32_t id) const override { return bytes(id); }
  std::string bytes(std::int32_t id) const override;
  std::string bytes_after(std::optional<std::int32_t> /*previous*/, std::int32_t id) const override {
    return bytes(id);
  }
  std::int64_t vocab_size() const override { return bpe_.pieces().size(); }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

 private:
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy,
                                   EncodingRecorder* recorder) const override;
  void encode_valid(std::string_view text, Bpe::Workspace& workspace, std::vector<std::int32_t>& ids) const;

  Bpe bpe_;
  Regex pattern_;
  mutable Pool<Bpe::Workspace> workspaces_;
  std::vector<std::int32_t> stop_ids_;
};

std::vector<std::int32_t> TiktokenTokenizer::encode(std::string_view text, SpecialTokens /*policy*/,
                                                    EncodingRecorder* recorder) const {
  if (text.size() > kMaxTextBytes) {
    throw BadInput("tokenizer", "expected at most {} bytes of text, got {}", kMaxTextBytes, text.size());
  }
  std::vector<std::int32_t> ids;
  const auto workspace = workspaces_.lease();
  (*workspace).recorder = recorder;
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
      [&](char broken) {
        const std::string_view byte(&broken, 1);
        record_word(recorder, byte, ids, [&] { bpe_.encode(byte, *workspace, ids); });
      });
  return ids;
}

/// tiktoken drops what its pattern does not match; published patterns match everything, and another one must.
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

std::string TiktokenTokenizer::bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw BadInput("tokenizer", "expected ids from 0 to {}, got {}", vocab_size() - 1, id);
  }
  return std::string(bpe_.pieces().piece(id));
}

/// Strict: whole groups of four, padding only at the end, no bits left over.
std::optional<std::string> from_base64(std::string_view text) {
  static const std::array<std::int8_t, 256> values = [] {
    std::array<std::int8_t, 256> table;
    table.fill(-1);
    std::int8_t value = 0;
    for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
      table[static_cast<unsigned char>(c)] = value++;
    }
    return table;
  }();
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const std::int8_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 0xFF);
  }
  if ((bits & ((1U << n_bits) - 1)) != 0) return std::nullopt;
  return bytes;
}

PieceTable read_ranks(std::string_view file, std::string_view path) {
  PieceTable pieces;
  for (std::size_t number = 1; !file.empty(); ++number) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;

    const std::size_t space = std::min(line.find(' '), line.size());
    const std::optional<std::string> piece = from_base64(line.substr(0, space));
    if (!piece || piece->empty() || piece->size() > kMaxRankBytes) {
      throw BadCheckpoint(path, "expected base64 of 1 to {} bytes at line {}, got something else", kMaxRankBytes,
                          number);
    }
    const std::string_view digits = line.substr(std::min(space + 1, line.size()));
    std::int32_t rank = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (error != std::errc() || stop != digits.data() + digits.size() || rank < 0 ||
        static_cast<std::size_t>(rank) >= kMaxRanks) {
      throw BadCheckpoint(path, "expected a rank from 0 to {} at line {}, got something else", kMaxRanks - 1, number);
    }
    if (!pieces.add(*piece, rank)) {
      throw BadCheckpoint(path, "expected every piece and every rank once, got one again at line {}", number);
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

}  // namespace

std::unique_ptr<const Tokenizer> parse_tiktoken(std::string_view file, std::string_view pattern,
                                                std::string_view path) {
  if (file.size() > kMaxFileBytes) {
    throw BadCheckpoint(path, "expected ranks of at most {} bytes, got {}", kMaxFileBytes, file.size());
  }
  PieceTable pieces = read_ranks(file, path);
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
