#include "cli/corpus_windows.h"

#include <algorithm>
#include <filesystem>

#include "base/fingerprint.h"
#include "base/folder_writer.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "data/pack.h"
#include "tokenizer/train/corpus.h"

namespace vitrine::cli {
namespace {

namespace fs = std::filesystem;

/// A name for the tokens of these files, by this tokenizer.
std::string tokens_folder(const Json& identity, const Tokenizer& tokenizer) {
  Fingerprint all;
  const std::string text = identity.dump() + std::to_string(tokenizer_fingerprint(tokenizer));
  all.add(std::as_bytes(std::span(text)));
  return fmt::format("tokens-{:016x}", all.value());
}

void pack_into(const std::string& folder, const std::vector<std::string>& files, const Session& session) {
  FolderWriter to(folder);
  ProgressBar bar("reading");
  const Packed packed = pack_corpus(files, *session.tokenizer, to.file(""), {}, *session.pool, bar.reporter());
  to.commit();
  if (packed.lost_bytes == 0) return;
  note(fmt::format("{} bytes of the text were dropped: the vocabulary lacks their characters",
                   grouped(packed.lost_bytes)));
}

}  // namespace

CorpusWindows::CorpusWindows(const std::string& path, const Session& session, const std::string& work) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "shard-00000.tokens", error)) {
    shards_.emplace(TokenShards::open(path));
    identity_ = {{"tokens", shards_->tokens()}, {"documents", shards_->documents()}};
    if (session.tokenizer != nullptr && shards_->info().fingerprint != tokenizer_fingerprint(*session.tokenizer)) {
      throw BadInput(path, "expected tokens of the model's tokenizer, got those of another one");
    }
  } else {
    if (session.tokenizer == nullptr) {
      throw BadInput(path, "the model has no tokenizer: expected a folder of tokens (vitrine data pack)");
    }
    const std::vector<std::string> files = corpus_files({path});
    identity_ = Json::array();
    for (const std::string& file : files) {
      const bool is_regular = fs::is_regular_file(file, error);
      identity_.push_back({{"name", fs::path(file).filename().string()},
                           {"bytes", is_regular ? Json(fs::file_size(file, error)) : Json()}});
    }
    const std::string folder = work + "/" + tokens_folder(identity_, *session.tokenizer);
    if (!fs::exists(folder, error)) pack_into(folder, files, session);
    shards_.emplace(TokenShards::open(folder));
  }
  const std::int64_t vocab_size = session.checkpoint.model->config().vocab_size;
  if (shards_->info().vocab_size > vocab_size) {
    throw BadInput(path, "expected a vocabulary of at most {} tokens, that of the model, got {}", vocab_size,
                   shards_->info().vocab_size);
  }
}

CorpusWindow CorpusWindows::at(std::int64_t start) const {
  std::int32_t first = 0;
  shards_->read(start, std::span(&first, 1));
  const bool begins_document = !shards_->document_starts(start, start + 1).empty();
  const bool has_bos = bos_ && begins_document && first == *bos_;
  const std::int64_t n_bos = bos_ && !has_bos ? 1 : 0;
  std::int64_t end = std::min(start + window_ - n_bos, tokens());
  const std::vector<std::int64_t> others = shards_->document_starts(start + 1, end);
  if (!others.empty()) end = others.front();
  CorpusWindow window;
  window.ids.assign(static_cast<std::size_t>(n_bos + end - start), bos_.value_or(0));
  shards_->read(start, std::span(window.ids).subspan(static_cast<std::size_t>(n_bos)));
  window.next = end;
  return window;
}

}  // namespace vitrine::cli
