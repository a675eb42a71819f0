// Finds the tokenizer at a path and detects its format from its contents.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/read/llama2c.h"
#include "tokenizer/read/marian.h"
#include "tokenizer/read/ranks_document.h"
#include "tokenizer/read/sentencepiece.h"
#include "tokenizer/read/tiktoken.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

/// Whether the first line is `base64 rank`, as in tiktoken's files.
bool is_tiktoken(std::string_view text) {
  const std::string_view line = text.substr(0, std::min(text.find('\n'), std::size_t{1024}));
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space % 4 != 0) return false;
  const std::string_view base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
  const std::string_view rank = line.substr(space + 1, line.ends_with('\r') ? line.size() - space - 2 : line.npos);
  return line.substr(0, space).find_first_not_of(base64) == std::string_view::npos && !rank.empty() &&
         rank.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Files of ranks in Mistral's and in Kimi's folders.
constexpr const char *kTekkenFile = "tekken.json", *kRanksFile = "tiktoken.model";

constexpr std::string_view kJsonSpace = " \t\r\n";

bool is_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(kJsonSpace);
  return first != std::string_view::npos && text[first] == '{';
}

/// Whether the first value of a JSON object is a number, as in a vocab.json: `{"!": 0, …`.
bool is_vocab_json(std::string_view text) {
  std::size_t i = text.find('"');
  if (i == text.npos) return false;
  for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
  i = text.find_first_not_of(kJsonSpace, std::min(i + 1, text.size()));
  if (i == text.npos || text[i] != ':') return false;
  i = text.find_first_not_of(kJsonSpace, i + 1);
  return i != text.npos && text[i] >= '0' && text[i] <= '9';
}

/// The other file of a pair, such as `gpt2-merges.txt` for `gpt2-vocab.json`.
std::string sibling(const std::string& path, std::string_view own, std::string_view other) {
  if (!path.ends_with(own))
    throw BadInput(path, "expected a name ending in {} to find the corresponding {}", own, other);
  return path.substr(0, path.size() - own.size()).append(other);
}

std::unique_ptr<const Tokenizer> load_pair(const std::string& vocab, const std::string& merges) {
  const auto vocab_file = MappedFile::open(vocab), merges_file = MappedFile::open(merges);
  return make_json_tokenizer(parse_vocab_and_merges(vocab_file->text(), vocab, merges_file->text(), merges), merges);
}

std::unique_ptr<const Tokenizer> load_by_config(const TokenizerFolder& folder, const TokenizerOptions& options) {
  return make_json_tokenizer(folder_document(folder), folder.vocabulary, options.source_lang);
}

/// Whether the file begins with a small int32 (max_token_length). The third and fourth bytes of the other formats are
/// not zero: some are text; GGUF has its magic there, and SentencePiece its first piece. Therefore, a max_token_length
/// of 10 (0x0A, the first byte of SentencePiece) or 123 ('{') is unambiguous.
bool is_llama2c(std::string_view text) { return text.size() >= 4 && text[2] == '\0' && text[3] == '\0'; }

/// Whether a file that begins like a llama2.c tokenizer is a llama2.c model: seven int32 (dim, hidden_dim, n_layers,
/// n_heads, n_kv_heads, ±vocab_size, seq_len), followed by exactly the float32 that they determine. Computed in double;
/// sizes that are not exact exceed any file. Source: karpathy/llama2.c, run.c (Config, memory_map_weights).
bool is_llama2c_model(std::string_view text) {
  std::array<std::int32_t, 7> header;
  if (text.size() < sizeof header) return false;
  std::memcpy(header.data(), text.data(), sizeof header);
  const std::vector<double> n(header.begin(), header.end());
  const double dim = n[0], hidden = n[1], layers = n[2], heads = n[3], kv_heads = n[4], vocab = std::abs(n[5]),
               seq_len = n[6];
  if (dim < 1 || hidden < 1 || layers < 1 || heads < 1 || kv_heads < 1 || vocab < 1 || seq_len < 1) return false;
  const double head_dim = std::floor(dim / heads);
  const double layer = 2 * dim + 2 * dim * heads * head_dim + 2 * dim * kv_heads * head_dim + 3 * dim * hidden;
  const double embedding = vocab * dim * (n[5] < 0 ? 2 : 1);  // twice if the head is not tied
  const double floats = embedding + layers * layer + dim + seq_len * head_dim;
  return static_cast<double>(text.size()) == static_cast<double>(sizeof header) + 4 * floats;
}

std::unique_ptr<const Tokenizer> load_file(const std::string& path, const TokenizerOptions& options) {
  if (path.ends_with("vocab.txt")) {
    return load_by_config(read_tokenizer_folder(std::filesystem::path(path).parent_path().string(), path), options);
  }
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  if (is_llama2c(text) && is_llama2c_model(text)) {
    throw BadInput(path, "expected a tokenizer, got a llama2.c model without one; give the file of its tokenizer");
  }
  if (is_llama2c(text)) return parse_llama2c_tokenizer(file->bytes(), path);
  if (text.starts_with('\n') && !is_json(text)) {
    return make_sentencepiece_tokenizer(parse_sentencepiece_model(file->bytes(), path));
  }
  if (text.starts_with("GGUF")) return make_gguf_tokenizer(GgufMetadata::parse(file->bytes(), path));
  if (is_tiktoken(text)) return parse_tiktoken(text, options.pattern, path);
  if (path.ends_with(kTekkenFile)) return make_json_tokenizer(parse_tekken(text, path), path);
  if (is_json(text)) {
    return is_vocab_json(text) ? load_pair(path, sibling(path, "vocab.json", "merges.txt"))
                               : parse_tokenizer_json(text, path, options.source_lang);
  }
  if (text.starts_with("#version")) return load_pair(sibling(path, "merges.txt", "vocab.json"), path);

  throw BadCheckpoint(path, "expected a tokenizer, got a file of unknown format");
}

/// A tiktoken.model has no pattern and no special tokens: those of Kimi are known.
std::unique_ptr<const Tokenizer> load_ranks(const TokenizerFolder& folder, const std::string& path,
                                            const TokenizerOptions& options) {
  if (folder.class_name != "TikTokenTokenizer") return load_file(path, options);
  const auto file = MappedFile::open(path);
  return make_json_tokenizer(parse_kimi(file->text(), path, folder.config, folder.config_path), path);
}

std::unique_ptr<const Tokenizer> load_folder(const std::string& path, const TokenizerOptions& options) {
  const auto file = [&](const char* name) { return (std::filesystem::path(path) / name).string(); };
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(file(name), error);
  };
  if (!has("tokenizer.bin") && has("tokenizer.json") && has("target_tokenizer.json")) {
    const auto source = MappedFile::open(file("tokenizer.json")),
               target = MappedFile::open(file("target_tokenizer.json"));
    return parse_tokenizer_json(source->text(), file("tokenizer.json"), options.source_lang,
                                parse_tokenizer_json(target->text(), file("target_tokenizer.json")));
  }
  if (has("tokenizer.bin")) return load_file(file("tokenizer.bin"), options);
  if ((has("source.spm") || has("target.spm")) && !has("tokenizer.json") && !has("tokenizer.model")) {
    return load_marian_tokenizer(path);
  }
  const TokenizerFolder folder = read_tokenizer_folder(path);
  if (folder.vocabulary.empty() && has(kTekkenFile)) return load_file(file(kTekkenFile), options);
  if (folder.vocabulary.empty() && has(kRanksFile)) return load_ranks(folder, file(kRanksFile), options);
  if (folder.class_name == "M2M100Tokenizer" && has("sentencepiece.bpe.model") && has("vocab.json")) {
    return load_m2m100_tokenizer(path, options.source_lang);
  }
  if (folder.vocabulary.empty()) {
    throw BadInput(path,
                   "expected tokenizer.json, tekken.json, tokenizer.model, tiktoken.model, spiece.model, "
                   "sentencepiece.bpe.model, vocab.json with merges.txt, source.spm with target.spm, vocab.txt or "
                   "tokenizer.bin, got none");
  }
  if (!is_plain(folder)) return load_by_config(folder, options);
  return has("vocab.json") && folder.vocabulary == file("vocab.json")
             ? load_pair(file("vocab.json"), file("merges.txt"))
             : load_file(folder.vocabulary, options);
}

}  // namespace

std::vector<TokenizerFile> tokenizer_files(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    std::vector<TokenizerFile> files;
    for (const char* name : {"tokenizer.json",
                             "target_tokenizer.json",
                             "tokenizer.model",
                             "spiece.model",
                             "spm.model",
                             "sentencepiece.bpe.model",
                             "sentencepiece.model",
                             "tokenizer.bin",
                             "vocab.json",
                             "merges.txt",
                             "tekken.json",
                             "tiktoken.model",
                             "source.spm",
                             "target.spm",
                             "target_vocab.json",
                             "vocab.txt",
                             "tokenizer_config.json",
                             "special_tokens_map.json",
                             "added_tokens.json",
                             "chat_template.jinja"}) {
      const std::filesystem::path file = std::filesystem::path(path) / name;
      if (std::filesystem::is_regular_file(file, error)) files.push_back({file.string(), name});
    }
    for (const std::string& name : additional_chat_templates(path)) {
      files.push_back({(std::filesystem::path(path) / name).string(), name});
    }
    return files;
  }
  if (path.ends_with("vocab.txt")) {
    std::vector<TokenizerFile> files = {{path, "vocab.txt"}};
    const std::filesystem::path config = std::filesystem::path(path).parent_path() / "tokenizer_config.json";
    if (std::filesystem::is_regular_file(config, error)) files.push_back({config.string(), "tokenizer_config.json"});
    return files;
  }
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  if (is_llama2c(text)) return {{path, "tokenizer.bin"}};
  if (text.starts_with("GGUF")) throw Unsupported(path, "expected a separate tokenizer file, got a GGUF model");
  const bool is_vocab = is_json(text) && is_vocab_json(text);
  if (is_vocab || text.starts_with("#version")) {
    const std::string vocab = is_vocab ? path : sibling(path, "merges.txt", "vocab.json");
    return {{vocab, "vocab.json"}, {sibling(vocab, "vocab.json", "merges.txt"), "merges.txt"}};
  }
  return {{path, is_json(text) ? "tokenizer.json" : "tokenizer.model"}};
}

std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& path, const TokenizerOptions& options) {
  std::error_code error;
  auto tokenizer = std::filesystem::is_directory(path, error) ? load_folder(path, options) : load_file(path, options);
  if (!options.source_lang.empty() && !tokenizer->language_place()) {
    throw BadInput("--source-lang", "the tokenizer {} does not mark texts with their language", path);
  }
  return tokenizer;
}

}  // namespace vitrine
