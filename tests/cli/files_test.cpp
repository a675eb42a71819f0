// vitrine logits and trace: the files that they write, and the files that they must not change.
#include "checkpoint/load.h"
#include "cli/program.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct Npy {
  std::string shape;
  std::vector<float> values;
};

Npy read_npy(const std::string& path) {
  const std::string file = read_file(path);
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t begin = 10U + static_cast<unsigned char>(file[8]) + 256U * static_cast<unsigned char>(file[9]);
  EXPECT_EQ(begin % 64, 0U);
  const std::string header = file.substr(10, begin - 10);
  EXPECT_THAT(header, testing::HasSubstr("'descr': '<f4', 'fortran_order': False"));
  const std::size_t open = header.find('('), close = header.find(')');
  Npy npy{header.substr(open, close + 1 - open), std::vector<float>((file.size() - begin) / sizeof(float))};
  std::memcpy(npy.values.data(), file.data() + begin, file.size() - begin);
  return npy;
}

std::vector<float> floats(const StoredTensor& tensor) {
  EXPECT_EQ(tensor.dtype, "F32");
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  float largest = 1;
  for (const float x : expected) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0F);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    ASSERT_NEAR(got[i], expected[i], 1e-4F * largest) << what << ", " << i;
  }
}

class Files : public testing::Test {
 protected:
  /// The sites of a trace, after a comparison with its --json output.
  std::map<std::string, std::vector<float>> trace(const std::string& model, const std::string& ids,
                                                  const Arguments& more) {
    Arguments all = {"trace", golden(model), "--ids", ids, "--out", folder_ / "trace.safetensors"};
    all.insert(all.end(), more.begin(), more.end());
    const Json json = json_of(all);
    const SafetensorsFile file = SafetensorsFile::open(folder_ / "trace.safetensors");
    EXPECT_EQ(json["sites"].size(), file.tensors().size());
    std::map<std::string, std::vector<float>> values;
    for (const Json& site : json["sites"]) {
      const StoredTensor& tensor = file.tensors().at(site["name"]);
      EXPECT_EQ(Json(tensor.shape), site["shape"]) << site;
      EXPECT_EQ(tensor.bytes.size(), site["bytes"]) << site;
      values[site["name"]] = floats(tensor);
    }
    return values;
  }
  const TempFolder folder_;
};

TEST_F(Files, LogitsEqualTheGolden) {
  for (const std::string model : {"gpt2", "gemma2_f16", "llama_gqa_bf16_sharded"}) {
    const auto ids = golden_ids(model);
    const Arguments all = {"logits",    golden(model), "--ids", joined(ids),
                           "--compute", "f32",         "--out", folder_ / "l.npy"};
    const Json json = json_of(all);
    const Npy npy = read_npy(folder_ / "l.npy");
    const Value expected = golden_values(model).at("hook_logits");
    EXPECT_EQ(json["ids"], Json(ids));
    EXPECT_EQ(json["shape"], Json({expected.shape[0], expected.shape[1]}));
    EXPECT_EQ(npy.shape, fmt::format("({}, {})", expected.shape[0], expected.shape[1]));
    expect_near(npy.values, expected.data, model);
    EXPECT_TRUE(same_bits(npy.values, logits_of(*golden_checkpoint(model).model, ids, {.compute = Compute::f32})))
        << "the library computes other logits";
    EXPECT_THAT(output_of(all), testing::HasSubstr("l.npy: float32 ["));
    EXPECT_EQ(folder_.files(), std::set<std::string>{"l.npy"});
  }
}

TEST_F(Files, TraceEqualsTheGolden) {
  for (const std::string model : {"gpt2", "gemma2"}) {
    const auto values = trace(model, joined(golden_ids(model)), {});
    std::size_t compared = 0;
    for (const auto& [site, expected] : golden_values(model)) {
      if (site.ends_with("hook_result") || site.starts_with("unembed.")) continue;  // expensive, or not a site of ours
      ASSERT_TRUE(values.contains(site)) << site;
      expect_near(values.at(site), expected.data, site);
      ++compared;
    }
    EXPECT_GT(compared, 30U);
  }
}

TEST_F(Files, SitesAreChosenByGlobs) {
  const auto names = [&](const Arguments& more) {
    std::set<std::string> result;
    for (const auto& [name, value] : trace("gpt2", "1,2,3", more)) result.insert(name);
    return result;
  };
  EXPECT_EQ(names({"--sites", "*.attn.hook_pattern", "--sites", "hook_embed"}),
            (std::set<std::string>{"blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern", "hook_embed"}));
  EXPECT_EQ(names({"--sites=blocks.[1]*hook_z"}), std::set<std::string>{"blocks.1.attn.hook_z"});
  EXPECT_FALSE(names({"--sites", "*"}).contains("blocks.0.attn.hook_result"));
  EXPECT_EQ(names({"--sites", "blocks.?.attn.hook_result"}),
            (std::set<std::string>{"blocks.0.attn.hook_result", "blocks.1.attn.hook_result"}));
  for (const std::string none : {"nope", "", "{}", "[a,b]", "blocks.9.*"}) {
    expect_error({"trace", golden("gpt2"), "--ids", "1", "--sites", none, "--out", folder_ / "none"},
                 {"--sites", none});
  }
  EXPECT_EQ(folder_.files(), std::set<std::string>{"trace.safetensors"});
}

TEST_F(Files, SetWritesIntoSites) {
  const auto plain = trace("gpt2", "1,2,3", {}).at("hook_embed");  // [3, 24]
  const auto written = [&](const std::string& write) {
    return trace("gpt2", "1,2,3", {"--set", write, "--sites", "hook_embed"}).at("hook_embed");
  };
  const auto changed = [&](const std::function<float(std::size_t row, std::size_t col, float)>& change) {
    std::vector<float> values = plain;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = change(i / 24, i % 24, values[i]);
    return values;
  };
  EXPECT_EQ(written("hook_embed=0"), std::vector<float>(3 * 24, 0.0F));
  EXPECT_EQ(written("hook_embed[1]*=2"), changed([](auto r, auto, float x) { return r == 1 ? x * 2 : x; }));
  EXPECT_EQ(written("hook_embed[-1,3]=-1.5"),
            changed([](auto r, auto c, float x) { return r == 2 && c == 3 ? -1.5F : x; }));
  EXPECT_EQ(written("hook_embed[:,2:4]+=1"),
            changed([](auto, auto c, float x) { return c == 2 || c == 3 ? x + 1 : x; }));

  const auto logits = [&](const Arguments& more) {
    Arguments all = {"--sites", "hook_logits"};
    all.insert(all.end(), more.begin(), more.end());
    return trace("gpt2", "1,2,3", all).at("hook_logits");
  };
  const auto without = logits({});
  EXPECT_NE(logits({"--set", "blocks.0.attn.hook_z[:,2]=0"}), without);
  EXPECT_NE(logits({"--set", "*.hook_attn_out=0", "--set", "*.hook_mlp_out=0"}), without);
  EXPECT_EQ(logits({"--set", "hook_embed*=1"}), without);
}

/// Their rows are computed one after another, and each is changed before it is used.
TEST_F(Files, SetWritesIntoCellsAndTheirAttention) {
  const std::string lstm = "own/lstm";
  const auto plain = trace(lstm, "1,2,3", {});
  for (const std::string gate : {"blocks.0.cell.hook_f", "blocks.1.cell.hook_c", "blocks.1.cell.hook_h"}) {
    const auto written = trace(lstm, "1,2,3", {"--set", gate + "[1]=0.25"});
    const std::size_t d = plain.at(gate).size() / 3;
    EXPECT_EQ(std::vector<float>(written.at(gate).begin() + static_cast<std::ptrdiff_t>(d),
                                 written.at(gate).begin() + static_cast<std::ptrdiff_t>(2 * d)),
              std::vector<float>(d, 0.25F));
    EXPECT_NE(written.at("hook_logits"), plain.at("hook_logits"));
    expect_error({"trace", golden(lstm), "--ids", "1,2", "--set", gate + "[2]=0", "--out", folder_ / "t"}, {"[2, "});
  }
  const std::string pattern = "decoder.0.cross_attn.hook_pattern";
  const auto read =
      trace("pairs/own_additive", "1,2,3", {"--target-ids", "1,2", "--set", pattern + "=0.5", "--sites", pattern});
  EXPECT_EQ(read.at(pattern), std::vector<float>(2 * 3, 0.5F));
}

TEST_F(Files, BadWritesAreRefused) {
  for (const std::string bad : {"hook_embed", "hook_embed=x", "=1", "hook_embed[0,1:300]=0", "hook_embed[5]=0",
                                "nope=1", "hook_embed[a]=0", "hook_embed[0,0,0]=1", "hook_embed]=0", ""}) {
    expect_error({"trace", golden("gpt2"), "--ids", "1,2", "--set", bad, "--out", folder_ / "t"}, {"--set", bad});
  }
  EXPECT_THAT(folder_.files(), testing::IsEmpty());
}

TEST_F(Files, UnwritablePathsAreRefused) {
  write_file(folder_ / "file", "");
  std::filesystem::create_directory(folder_ / "folder");
  std::filesystem::create_directory(folder_ / "closed");
  std::filesystem::permissions(folder_ / "closed",
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  for (const std::string command : {"logits", "trace"}) {
    const auto all = [&](const std::string& out) {
      return Arguments{command, golden("gpt2"), "--ids", "1", "--out", out};
    };
    expect_error(all(folder_ / "none/x"), {"none/x"});
    expect_error(all(folder_ / "folder"), {"folder", "got a folder"});
    expect_error(all(folder_ / "folder/"), {"folder", "got a folder"});
    expect_error(all(folder_ / "file/x"), {"file/x"});
    expect_error(all("/proc/x"), {"/proc/x"});
    expect_error(all("/dev/null"), {"/dev/null"});
    expect_error(all(""), {"empty"});
    if (::geteuid() != 0) expect_error(all(folder_ / "closed/x"), {"closed/x"});
    expect_usage_error({command, golden("gpt2"), "--ids", "1"}, {"--out"});
  }
  EXPECT_EQ(folder_.files(), std::set<std::string>{"file"});
}

TEST_F(Files, AFailureKeepsTheOldFileAndLeavesNoOther) {
  write_file(folder_ / "out", "old");
  const std::string late = many_ids(300) + ",99999";  // the bad id is in the second chunk
  expect_error({"logits", golden("llama_long"), "--ids", late, "--out", folder_ / "out"}, {"99999", "60"});
  expect_error({"trace", golden("llama_long"), "--ids", late, "--out", folder_ / "out"}, {"99999", "60"});
  expect_error({"logits", golden("gpt2"), "--ids", many_ids(33), "--out", folder_ / "out"}, {"33", "32"});
  expect_error({"trace", golden("gpt2"), "--ids", many_ids(33), "--out", folder_ / "out"}, {"33", "32"});
  EXPECT_EQ(folder_.files(), std::set<std::string>{"out"});
  EXPECT_EQ(read_file(folder_ / "out"), "old");
}

TEST_F(Files, ClosedStandardFilesDamageNoOutput) {
  const Arguments all = {"logits", golden("gpt2"), "--ids", "1,2", "--out", folder_ / "l.npy"};
  output_of(all);
  const std::string expected = read_file(folder_ / "l.npy");
  for (const std::set<int>& closed : {std::set<int>{1}, {0, 1}, {0, 1, 2}, {0}, {2}}) {
    std::filesystem::remove(folder_ / "l.npy");
    const Outcome o = run_program(all, {.closed = closed});
    EXPECT_EQ(o.status, closed.contains(1) ? 1 : 0) << o.err;
    EXPECT_EQ(read_file(folder_ / "l.npy"), expected);
  }
}

}  // namespace
}  // namespace vitrine::test
