// Per-layer embeddings stay in the mapped file: neither loading nor a pass makes their table resident.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/hostile_folder.h"

namespace vitrine::test {
namespace {

/// Resident bytes of this process.
std::int64_t resident() {
  std::int64_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST(PerLayerEmbeddings, AreNotReadButForTheRowsOfTheTokens) {
  constexpr std::int64_t kRows = std::int64_t{1} << 21, kMany = std::int64_t{64} << 20;
  const HostileFolder folder("gemma4");
  const std::string table = "model.embed_tokens_per_layer.weight";
  const Checkpoint small = load_checkpoint(folder.path());
  std::int64_t bytes = 0;
  folder.edit_header([&](Json& header) {
    std::int64_t end = 0;
    for (const auto& [name, tensor] : header.items()) {
      if (name != "__metadata__") end = std::max(end, tensor["data_offsets"][1].get<std::int64_t>());
    }
    const auto width = header[table]["shape"][1].get<std::int64_t>();
    bytes = kRows * width * 4;
    header["model.layers.5.self_attn.k_proj.weight"] = header[table];  // known, and not read
    header[table] = {{"dtype", "F32"}, {"shape", {kRows, width}}, {"data_offsets", {end, end + bytes}}};
  });
  const std::string path = folder / "model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + static_cast<std::uintmax_t>(bytes));
  folder.edit_json([&](Json& config) { config["vocab_size_per_layer_input"] = kRows; });

  const std::int64_t before = resident();
  const Checkpoint checkpoint = load_checkpoint(folder.path());
  EXPECT_LT(resident() - before, kMany) << "of a table of " << bytes << " bytes, by loading";
  const std::vector<std::int32_t> ids = golden_ids("gemma4");
  EXPECT_FALSE(
      same_bits(logits_of(*checkpoint.model, ids), logits_of(*small.model, ids)));  // zeros, a hole of the file
  EXPECT_LT(resident() - before, kMany);
}

}  // namespace
}  // namespace vitrine::test
