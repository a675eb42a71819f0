// The token shards of a pair folder, `source shard #target target shard`: reads the shards and all batches of pairs.
#include <filesystem>
#include <vector>

#include "data/pairs.h"
#include "data/shards.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

namespace {

constexpr std::int64_t kMaxTokens = 1 << 16;

void read_all(const std::string& folder) {
  const TokenShards shards = TokenShards::open(folder);
  const std::int64_t n = std::min(shards.tokens(), kMaxTokens);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  shards.read(0, ids);
  for (const std::int32_t id : ids)
    fuzz::expect(id >= 0 && id < shards.info().vocab_size, "an id is in the vocabulary");
  std::int64_t last = -1;
  for (const std::int64_t start : shards.document_starts(0, n)) {
    fuzz::expect(start > last && start < n, "documents begin in ascending order");
    last = start;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  const auto [source, target] = fuzz::cut(fuzz::text_of(data, size), "#target");
  std::filesystem::create_directories(folder.path() + "/source");
  std::filesystem::create_directories(folder.path() + "/target");
  folder.put("source/shard-00000.tokens", source);
  folder.put("target/shard-00000.tokens", target);
  fuzz::answer([&] { read_all(folder.path() + "/source"); });
  return fuzz::answer([&] {
    DatasetOptions options;
    options.batch = 2;
    options.sequence = 8;
    const PairCorpus corpus(folder.path(), "", options, 0);
    for (std::int64_t step = 0; step < 4; ++step) corpus.batch(step);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(corpus.validation_batches(), 4); ++i)
      corpus.validation_batch(i);
  });
}
