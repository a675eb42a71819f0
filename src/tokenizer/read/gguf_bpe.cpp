// The kinds of GGUF tokenizers with a list of merges. "gpt2": byte-level BPE with the pre-tokenizer that
// tokenizer.ggml.pre names. "gemma4": BPE of a whole text's characters, with spaces as ▁ and bytes as <0xNN>.
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "tokenizer/algorithms/bpe.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/read/gguf_tokenizer.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {
namespace {

class GgufBpeTokenizer final : public GgufTokenizer {
 public:
  GgufBpeTokenizer(GgufVocabulary v, Bpe bpe, PreTokenizers pre_tokenizers)
      : GgufTokenizer(std::move(v)), bpe_(std::move(bpe)), pre_tokenizers_(std::move(pre_tokenizers)) {}

  std::string bytes(std::int32_t id) const override;

 private:
  void encode_text(std::string_view text, bool is_first, EncodingRecorder* recorder,
                   std::vector<std::int32_t>& ids) const override;

  Bpe bpe_;
  PreTokenizers pre_tokenizers_;
  mutable ObjectPool<Bpe::Workspace> workspaces_;
};

/// A byte that is not valid UTF-8 is a word by itself.
void GgufBpeTokenizer::encode_text(std::string_view text, bool /*is_first*/, EncodingRecorder* recorder,
                                   std::vector<std::int32_t>& ids) const {
  const auto workspace = workspaces_.lease();
  workspace->recorder = recorder;
  std::string spelled;
  const auto encode_word = [&](std::string_view word) {
    spelled.clear();
    append_byte_level(word, spelled);
    record_word(recorder, spelled, ids, [&] { bpe_.encode(spelled, *workspace, ids); });
  };
  for_each_valid_run(
      text,
      [&](std::string_view valid) {
        pre_tokenizers_(
            valid, true, [&](std::string_view word, bool) { encode_word(word); }, recorder);
      },
      [&](char invalid) { encode_word(std::string_view(&invalid, 1)); });
}

PreTokenizers pre_tokenizers_of(const PreTokenizerRule& rule, std::string_view path) {
  std::vector<std::unique_ptr<const PreTokenizer>> parts;
  std::vector<std::string> names;
  for (const std::string_view pattern : rule.patterns) {
    names.push_back(fmt::format("pattern {}", names.size() + 1));
    parts.push_back(
        make_split_pre_tokenizer(Split(Regex(pattern, RegexSyntax::rust, path), SplitBehavior::isolated, false)));
  }
  return {std::move(parts), std::move(names)};
}

std::string GgufBpeTokenizer::bytes(std::int32_t id) const {
  const GgufVocabulary::Piece& piece = at(id);
  if (piece.is_control()) return "";
  std::string bytes;
  if (piece.type == PieceType::user_defined || !append_from_byte_level(piece.text, bytes)) return piece.text;
  return bytes;
}

class GgufCharacterBpeTokenizer final : public GgufTokenizer {
 public:
  GgufCharacterBpeTokenizer(GgufVocabulary v, Bpe bpe) : GgufTokenizer(std::move(v)), bpe_(std::move(bpe)) {}

  std::string bytes(std::int32_t id) const override;

 private:
  void encode_text(std::string_view text, bool is_first, EncodingRecorder* recorder,
                   std::vector<std::int32_t>& ids) const override;

  Bpe bpe_;
  mutable ObjectPool<Bpe::Workspace> workspaces_;
};

void GgufCharacterBpeTokenizer::encode_text(std::string_view text, bool /*is_first*/, EncodingRecorder* recorder,
                                            std::vector<std::int32_t>& ids) const {
  const auto workspace = workspaces_.lease();
  workspace->recorder = recorder;
  std::string normal;
  for_each_valid_run(
      text,
      [&](std::string_view valid) {
        normal.clear();
        append_with_spaces_as(kSpaceSymbol, valid, normal);
        if (recorder != nullptr) recorder->normalized("spaces", valid, normal);
        record_word(recorder, normal, ids, [&] { bpe_.encode(normal, *workspace, ids); });
      },
      [&](char invalid) {
        const std::int32_t id = bpe_.pieces().find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(invalid)));
        if (id != kNoId) ids.push_back(id);
      });
}

std::string GgufCharacterBpeTokenizer::bytes(std::int32_t id) const {
  const GgufVocabulary::Piece& piece = at(id);
  if (piece.is_control()) return "";
  if (piece.type == PieceType::user_defined) return piece.text;
  const auto byte = byte_of_piece(piece.text);
  return byte ? std::string(1, static_cast<char>(*byte)) : with_spaces(piece.text);
}

/// Parses "left right". The left piece may begin with a space, so its first byte is not searched.
Bpe::Pair read_merge(std::string_view merge, std::size_t number, const PieceTable& pieces, std::string_view path) {
  const std::size_t space = merge.find(' ', 1);
  Bpe::Pair pair = {kNoId, kNoId};
  if (space != merge.npos) pair = {pieces.find(merge.substr(0, space)), pieces.find(merge.substr(space + 1))};
  if (pair.left == kNoId || pair.right == kNoId) {
    throw BadCheckpoint(path, "expected two tokens for merge {}, got \"{}\"", number, merge);
  }
  return pair;
}

Bpe read_bpe(const GgufVocabulary& vocabulary, const std::vector<std::string_view>& merges, BpeOptions options,
             std::string_view path) {
  PieceTable pieces;
  for (std::size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    pieces.add(vocabulary.pieces[i].text, static_cast<std::int32_t>(i));
  }
  std::vector<Bpe::Pair> pairs;
  pairs.reserve(merges.size());
  for (const std::string_view merge : merges) pairs.push_back(read_merge(merge, pairs.size(), pieces, path));
  return Bpe(std::move(pieces), pairs, std::move(options), path);
}

}  // namespace

std::unique_ptr<const Tokenizer> make_gguf_bpe_tokenizer(GgufVocabulary vocabulary,
                                                         const std::vector<std::string_view>& merges,
                                                         std::string_view path) {
  const PreTokenizerRule& rule = gguf_pre_tokenizer(vocabulary.pre, path);
  BpeOptions options;
  options.ignore_merges = rule.ignore_merges;
  Bpe bpe = read_bpe(vocabulary, merges, std::move(options), path);
  return std::make_unique<GgufBpeTokenizer>(std::move(vocabulary), std::move(bpe), pre_tokenizers_of(rule, path));
}

std::unique_ptr<const Tokenizer> make_gguf_character_bpe_tokenizer(GgufVocabulary vocabulary,
                                                                   const std::vector<std::string_view>& merges,
                                                                   std::string_view path) {
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unk = true;
  options.unk_id = vocabulary.unk.value_or(kNoId);
  Bpe bpe = read_bpe(vocabulary, merges, std::move(options), path);
  return std::make_unique<GgufCharacterBpeTokenizer>(std::move(vocabulary), std::move(bpe));
}

}  // namespace vitrine
