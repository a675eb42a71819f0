// Broken safetensors files and false headers: each loads or is rejected with an error that names the file and the
// tensor.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/safetensors.h"

namespace vitrine::test {
namespace {

constexpr const char* kWq = "model.layers.0.self_attn.q_proj.weight";

/// The message that refuses llama_mha with a changed header.
std::string refusal_with_header(const std::function<void(Json&)>& edit) {
  const HostileFolder folder("llama_mha");
  folder.edit_header(edit);
  return refusal(folder.path());
}

TEST(HostileSafetensors, TheUnchangedCopyLoads) {
  for (const char* golden : {"llama_mha", "gemma2", "gpt2_variant", "llama_gqa_bf16_sharded"}) {
    EXPECT_EQ(refusal(HostileFolder(golden).path()), "");
  }
  EXPECT_EQ(refusal_with_header([](Json&) {}), "");
}

TEST(HostileSafetensors, FalseHeaderLengths) {
  const HostileFolder folder("llama_mha");
  const std::string good = folder.read();
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{good.size() - 8}, std::uint64_t{good.size() - 7},
        std::uint64_t{good.size()}, std::uint64_t{100'000'001}, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
        ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    folder.write(HostileFolder::length_text(length) + good.substr(8));
    expect_all_in(refusal(folder.path()), {"[" + (folder / "model.safetensors") + "]"});
  }
}

TEST(HostileSafetensors, FilesThatEndEarly) {
  const HostileFolder folder("llama_mha");
  const std::string good = folder.read();
  for (std::size_t size = 0; size < good.size(); size += size < 16 ? 1 : 64) {
    std::filesystem::resize_file(folder / "model.safetensors", size);
    expect_all_in(load_refusal(folder.path()), {"model.safetensors]"});
    if (testing::Test::HasFailure()) FAIL() << "at " << size << " bytes";
    folder.write(good);
  }
  folder.write(good + "x");
  expect_all_in(refusal(folder.path()), {"model.safetensors]"});
}

TEST(HostileSafetensors, AnyByteOfTheHeaderMayBeWrong) {
  for (const char* golden : {"llama_mha", "gpt2_relu"}) {
    const HostileFolder folder(golden);
    const std::size_t header = 8 + folder.header_text().size();
    std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    const std::string good = folder.read();
    int refused = 0;
    constexpr std::uint64_t kMutations = 1500;
    for (std::uint64_t i = 0; i < kMutations; ++i) {
      const auto at = static_cast<std::size_t>(uniform(11, 0, i) * static_cast<double>(header));
      const double u = uniform(11, 1, i);
      const char other[] = {static_cast<char>(u * 256), static_cast<char>('0' + u * 10),
                            static_cast<char>(good[at] ^ 1)};
      file.seekp(static_cast<std::streamoff>(at)).put(other[i % 3]).flush();
      refused += load_refusal(folder.path()).empty() ? 0 : 1;
      file.seekp(static_cast<std::streamoff>(at)).put(good[at]).flush();
    }
    EXPECT_GT(refused, static_cast<int>(kMutations / 2));
    EXPECT_EQ(load_refusal(folder.path()), "") << "each mutation has been undone";
  }
}

TEST(HostileSafetensors, HeadersThatAreNotATableOfTensors) {
  const HostileFolder folder("llama_mha");
  const std::string good = folder.header_text();
  for (const std::string& header :
       {std::string("[]"), std::string("null"), std::string("{\"a\": 1}"), std::string("{\"\xff\": 1}"),
        std::string(90, '['), good + "x", good + std::string(1, '\0') + "x", std::string("   "),
        good.substr(0, good.rfind('}')) + ",\"" + kWq + "\":{}}"}) {
    folder.set_header(header);
    expect_all_in(refusal(folder.path()), {"[" + (folder / "model.safetensors") + "]"});
  }
  expect_all_in(refusal(folder.path()), {kWq, "twice"});
}

struct BadEntry {
  const char* key;
  const char* value;
};

void PrintTo(const BadEntry& entry, std::ostream* out) { *out << entry.key << ": " << entry.value; }

class HostileEntry : public testing::TestWithParam<BadEntry> {};

TEST_P(HostileEntry, IsRefusedByTheTensorsName) {
  const auto [key, value] = GetParam();
  const std::string message = refusal_with_header([&](Json& header) {
    if (std::string_view(value) == "-") {
      header[kWq].erase(key);
    } else {
      header[kWq][key] = Json::parse(value);
    }
  });
  expect_all_in(message, {"model.safetensors]", kWq});
}

constexpr BadEntry kBadEntries[] = {
    {"dtype", "-"},
    {"dtype", "null"},
    {"dtype", "7"},
    {"dtype", "\"\""},
    {"dtype", "\"f32\""},
    {"dtype", "\"F64\""},
    {"dtype", "\"I32\""},
    {"dtype", "\"F16\""},
    {"dtype", "\"F4\""},
    {"shape", "-"},
    {"shape", "null"},
    {"shape", "24"},
    {"shape", "[]"},
    {"shape", "[576]"},
    {"shape", "[24, 24, 1]"},
    {"shape", "[12, 48]"},
    {"shape", "[0, 24]"},
    {"shape", "[-24, -24]"},
    {"shape", "[24.0, 24]"},
    {"shape", "[\"24\", 24]"},
    {"shape", "[24, 24, 4294967296, 4294967296]"},
    {"shape", "[4611686018427387904, 4]"},
    {"shape", "[18446744073709551615, 18446744073709551615]"},
    {"shape", "[1e2, 5.76]"},
    {"shape", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,24,24]"},
    {"data_offsets", "-"},
    {"data_offsets", "null"},
    {"data_offsets", "[]"},
    {"data_offsets", "[0]"},
    {"data_offsets", "[0, 1, 2]"},
    {"data_offsets", "[2304, 0]"},
    {"data_offsets", "[-2304, 0]"},
    {"data_offsets", "[0, 1e3]"},
    {"data_offsets", "[0, 18446744073709551615]"},
    {"data_offsets", "[18446744073709549312, 18446744073709551615]"},
    {"data_offsets", "[4611686018427385600, 4611686018427387904]"},
    {"data_offsets", "[1000000, 1002304]"},
};

INSTANTIATE_TEST_SUITE_P(Each, HostileEntry, testing::ValuesIn(kBadEntries));

TEST(HostileSafetensors, OverlapsAndGapsNameATensor) {
  const HostileFolder folder("llama_mha");
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const Json good = Json::parse(folder.header_text());
  const auto begin = good[name]["data_offsets"][0].get<std::int64_t>(),
             end = good[name]["data_offsets"][1].get<std::int64_t>();
  for (const std::int64_t by : {-4, 4, -2304}) {
    folder.edit_header([&](Json& header) { header[name]["data_offsets"] = {begin + by, end + by}; });
    expect_all_in(refusal(folder.path()), {"model.safetensors]", "tensor"});
    EXPECT_THAT(refusal(folder.path()), testing::ContainsRegex("model\\.layers|lm_head|model\\.norm"));
  }
  folder.edit_header([&](Json& header) { header[name]["data_offsets"] = {begin, end}; });
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(HostileSafetensors, TensorsThatAreMissingOrTooMany) {
  const auto rename = [](Json& header, const std::string& from, const std::string& to) {
    header[to] = header[from];
    header.erase(from);
  };
  expect_all_in(refusal_with_header([&](Json& h) { rename(h, kWq, "__metadata__"); }), {"model.safetensors]"});
  expect_all_in(refusal_with_header([&](Json& h) { rename(h, kWq, "model.layers.0.self_attn.q_proj.wait"); }),
                {"model.safetensors]", kWq, "missing"});
  expect_all_in(refusal_with_header([&](Json& h) { rename(h, "model.embed_tokens.weight", "x"); }),
                {"embed_tokens.weight", "missing"});
  expect_all_in(refusal_with_header([&](Json& h) { rename(h, "lm_head.weight", "head"); }),
                {"tensor head", "not part of this model (--allow-tensor"});
  const Json none = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  for (const std::string& extra :
       {std::string("model.layers.2.mlp.up_proj.weight"), std::string("model.layers.0.self_attn.q_proj.bias"),
        std::string("lm_head.bias"), std::string("model.layers.00.mlp.up_proj.weight"), std::string(""),
        std::string("model.layers.-1.x")}) {
    expect_all_in(refusal_with_header([&](Json& h) { h[extra] = none; }),
                  {"model.safetensors]", "tensor " + extra, "not part of this model"});
  }
  for (const char* buffer : {"model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.cos_cached",
                             "model.layers.1.self_attn.rotary_emb.sin_cached"}) {
    EXPECT_EQ(refusal_with_header([&](Json& h) { h[buffer] = none; }), "") << "known and ignored";
  }
  const HostileFolder folder("llama_mha");
  folder.edit_header([&](Json& h) { h["extra.0.weight"] = none; });
  EXPECT_NE(refusal(folder.path(), {.allowed_config_keys = {}, .allowed_tensors = {"extra.1*", "extra"}}), "");
  EXPECT_EQ(refusal(folder.path(), {.allowed_config_keys = {}, .allowed_tensors = {"extra.*"}}), "");
  EXPECT_EQ(refusal(folder.path(), {.allowed_config_keys = {}, .allowed_tensors = {"extra.0.weight"}}), "");
}

TEST(HostileSafetensors, NamesOfTensorsCannotBreakTheLine) {
  const Json none = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  expect_all_in(refusal_with_header([&](Json& h) { h["a\n\033[2Jb"] = none; }), {"a??[2Jb"});
  expect_all_in(refusal_with_header([&](Json& h) { h[std::string(1'000'000, 'x')] = none; }),
                {"xxx", "not part of this model"});
}

TEST(HostileSafetensors, WeightsNeedNoAlignment) {
  for (const char* golden : {"llama_mha", "gemma2_f16", "gpt2_variant"}) {
    const HostileFolder folder(golden);
    const std::vector<std::int32_t> ids = golden_ids(golden);
    const std::vector<float> expected = logits_of(*load_checkpoint(folder.path()).model, ids);
    for (int spaces = 1; spaces <= 3; ++spaces) {
      folder.set_header(folder.header_text() + " ");
      EXPECT_TRUE(same_bits(logits_of(*load_checkpoint(folder.path()).model, ids), expected))
          << golden << " + " << spaces;
    }
  }
}

TEST(HostileSafetensors, ATiedHeadThatDiffers) {
  const HostileFolder folder("llama_mha");
  folder.edit_json([](Json& config) { config["tie_word_embeddings"] = true; });
  EXPECT_FALSE(load_checkpoint(folder.path()).model->config().head.tied) << "the head of the file counts";
  const Json header = Json::parse(folder.header_text());
  const std::string bytes = folder.read();
  const std::size_t data = 8 + folder.header_text().size();
  const auto begin = header["model.embed_tokens.weight"]["data_offsets"][0].get<std::size_t>();
  folder.poke("lm_head.weight", 0, bytes.substr(data + begin, 47 * 24 * 4));
  EXPECT_EQ(refusal(folder.path()), "");
  EXPECT_TRUE(load_checkpoint(folder.path()).model->config().head.tied) << "a head equal to the embedding";
}

TEST(HostileSafetensors, AHeaderOfTinyValuesStaysSmallInMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers use additional memory";
#endif
  const HostileFolder folder("llama_mha");
  std::string text = "{\"a\":[{}";
  for (int i = 0; i < 5'000'000; ++i) text += ",{}";
  folder.set_header(text + "]}");
  text.clear();
  text.shrink_to_fit();
  EXPECT_LT(peak_growth_mb([&] { expect_all_in(load_refusal(folder.path()), {"model.safetensors]"}); }), 300);
}

}  // namespace
}  // namespace vitrine::test
