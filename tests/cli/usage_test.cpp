// The command line: help, version, exit status, messages.
#include <limits>
#include <map>
#include <regex>

#include "cli/program.h"

namespace vitrine::test {
namespace {

const std::map<std::string, Arguments> kOptions = {
    {"generate",
     {"--ids", "--no-special", "--max-tokens", "--temperature", "--top-k", "--top-p", "--min-p", "--repeat-penalty",
      "--greedy", "--stop", "--logprobs", "128", "0.8", "40", "0.95"}},
    {"logits", {"--ids", "--no-special", "--out"}},
    {"tokenize", {"--no-special", "--lines"}},
    {"detokenize", {"ID"}},
    {"trace", {"--ids", "--no-special", "--sites", "--set", "--gradients", "--out"}},
    {"predict", {"--ids", "--no-special", "--top"}},
    {"eval", {"--window", "--stride", "--no-special", "FILE"}},
    {"info", {"--batch", "--length", "--phase", "--markdown"}},
    {"init", {"--dtype", "--set", "PRESET", "OUT", "gemma-2-2b", "gpt3-175b"}},
};

TEST(Usage, HelpNamesEveryOptionAndAnExample) {
  const std::string program = output_of({"--help"});
  EXPECT_THAT(program, testing::HasSubstr("Example: vitrine "));
  EXPECT_THAT(program, testing::HasSubstr("--version"));
  for (const auto& [command, options] : kOptions) {
    EXPECT_THAT(program, testing::HasSubstr("  " + command + " "));
    const std::string help = output_of({command, "--help"});
    EXPECT_THAT(help, testing::HasSubstr("Example: vitrine " + command + " "));
    EXPECT_THAT(help, testing::HasSubstr(command == "init" ? "PRESET" : "MODEL"));
    for (const std::string& option : options) EXPECT_THAT(help, testing::HasSubstr(option)) << command;
    for (const char* option : {"--threads", "--seed", "--json", "--tokenizer", "--compute", "--kv", "--help"}) {
      EXPECT_THAT(help, testing::HasSubstr(option)) << command;
    }
  }
}

TEST(Usage, VersionNamesBuildAndInstructionSet) {
  const std::string version = output_of({"--version"});
  EXPECT_TRUE(std::regex_match(
      version,
      std::regex(R"(vitrine \d+\.\d+\.\d+ \([^,()]+, (scalar|avx2|avxvnni|avx512|avx512vnni|avx512bf16)\)\n)")))
      << version;
  EXPECT_THAT(output_of({"--version"}, {.environment = {"VITRINE_ISA=scalar"}}), testing::HasSubstr(", scalar)"));
}

TEST(Usage, UnknownInstructionSet) {
  const Launch launch = {.environment = {"VITRINE_ISA=mmx"}};
  expect_error({"--version"}, {"VITRINE_ISA", "mmx"}, launch);
  expect_error({"generate", golden("gpt2"), "--ids", "1"}, {"VITRINE_ISA", "mmx"}, launch);
}

TEST(Usage, UnknownCommandsAndOptionsAreNamed) {
  expect_usage_error({}, {"command"});
  expect_usage_error({"nope"}, {"nope"});
  expect_usage_error({"nope", "--help"}, {"nope"});
  expect_usage_error({"genrate", "x"}, {"genrate", "did you mean generate?"});
  expect_usage_error({"generate", "--tempreture", "1", "x"}, {"--tempreture", "did you mean --temperature?"});
  expect_usage_error({"generate", "--tempreture=1", "x"}, {"did you mean --temperature?"});
  expect_usage_error({"--nope"}, {"--nope"});
  expect_usage_error({""});
  expect_usage_error({"generate", golden("gpt2"), "--ids", "1", "--nope"}, {"--nope"});
  expect_usage_error({"generate", golden("gpt2"), "Once", "upon", "a", "time"}, {"upon a time", "quote a TEXT"});
  expect_usage_error({"generate", "-hello"}, {"-hello"});
}

TEST(Usage, TextOrIds) {
  for (const std::string command : {"predict", "generate", "logits", "trace"}) {
    const auto all = [&](Arguments more) {
      more.insert(more.begin(), command);
      if (command != "generate" && command != "predict") more.insert(more.end(), {"--out", "/nowhere/x"});
      return more;
    };
    expect_usage_error(all({}), {"TEXT"});
    expect_usage_error(all({golden("gpt2"), "text", "--ids", "1"}), {"TEXT", "--ids"});
    for (const std::string bad : {"", "1,,2", "1,2,", ",", "a", "1 2", "1.5", "[1,2]", "99999999999", "+1", "0x1"}) {
      expect_usage_error(all({golden("gpt2"), "--ids", bad}), {"--ids", "\"" + bad + "\""});
    }
  }
  EXPECT_EQ(json_of({"generate", "--max-tokens=1", "--ids=01,2", "--greedy", golden("gpt2")})["prompt_ids"],
            Json({1, 2}));
}

TEST(Usage, NumbersAreReadStrictly) {
  const auto refused = [](const std::string& option, const Arguments& values) {
    for (const std::string& value : values) {
      expect_usage_error({"generate", golden("gpt2"), "--ids", "1", option, value}, {option, "\"" + value + "\""});
    }
  };
  refused("--threads", {"0", "-1", "1025", "x", "1.5", "", "99999999999999999999"});
  refused("--seed", {"-1", "x", "1.5", "", "18446744073709551616", "0x10"});
  refused("--max-tokens", {"-1", "1e3", "3x", "", " 3"});
  refused("--logprobs", {"-1", "x"});
  refused("--temperature", {"", "x", "1x", "nan", "inf", "1e999"});
  refused("--top-k", {"2.5", "99999999999", ""});
  EXPECT_EQ(json_of({"generate", golden("gpt2"), "--ids", "1", "--max-tokens", "010", "--greedy"})["ids"].size(), 10U)
      << "not octal";
  expect_usage_error({"generate", golden("gpt2"), "--ids", "1", "--max-tokens"}, {"--max-tokens"});
}

TEST(Usage, ComputeAndKvTypes) {
  expect_error({"generate", golden("gpt2"), "--ids", "1", "--compute", "int8"}, {"[--compute]", "int8"});
  expect_usage_error({"generate", golden("gpt2"), "--ids", "1", "--compute", "int4"}, {"--compute", "int4"});
  expect_usage_error({"generate", golden("gpt2"), "--ids", "1", "--kv", "f8"}, {"--kv", "f8"});
  expect_usage_error({"generate", golden("gpt2"), "--ids", "1", "--kv", "int8:"}, {"--kv", "int8:"});
  for (const char* kv : {"f32", "bf16", "f16", "int8", "int4", "int8:int4", "f32:bf16"}) {
    for (const char* compute : {"auto", "f32"}) {
      json_of({"generate", golden("gpt2"), "--ids", "1", "--kv", kv, "--compute", compute, "--max-tokens", "3"});
    }
  }
}

TEST(Usage, PathsThatDoNotExist) {
  const TempFolder folder;
  write_file(folder / "empty.bin", "");
  std::filesystem::create_directory(folder / "empty");
  expect_error({"generate", folder / "none", "--ids", "1"}, {"none", "no such file"});
  expect_error({"generate", folder / "empty", "--ids", "1"}, {"empty", "config.json"});
  expect_error({"generate", folder / "empty.bin", "--ids", "1"}, {"empty.bin"});
  expect_error({"generate", golden("gpt2") + "/config.json", "--ids", "1"}, {"expected the folder"});
  expect_error({"generate", golden("gpt2") + "/model.safetensors", "--ids", "1"}, {"expected the folder"});
  expect_error({"generate", golden("gpt2"), "text"}, {"gpt2", "tokenizer"});
  expect_error({"generate", "", "--ids", "1"}, {});
  expect_error({"generate", "Once upon a time", golden("gpt2")}, {"Once upon a time", "MODEL comes first"});
  expect_error({"generate", golden("gpt2_"), "--ids", "1"}, {"did you mean", "goldens/gpt2?"});
  expect_error({"tokenize", golden("gpt2") + "/confg.json", "x"}, {"did you mean", "config.json?"});
  expect_error({"generate", std::string(5000, 'x'), "--ids", "1"}, {});
  expect_error({"generate", "bad\n\x1B[2Jname", "--ids", "1"}, {"bad", "[2Jname"});
}

TEST(Usage, BrokenModels) {
  const TempFolder folder;
  const std::string cut = folder / "cut", nan = folder / "nan", key = folder / "key";
  for (const std::string& path : {cut, nan, key}) std::filesystem::copy(golden("llama_mha"), path);

  std::filesystem::resize_file(cut + "/model.safetensors", 30'000);
  expect_error({"generate", cut, "--ids", "1"}, {"model.safetensors", "incomplete"});

  patch_tensor(nan, "model.layers.1.mlp.down_proj.weight",
               [](std::span<float> weight) { weight[0] = std::numeric_limits<float>::quiet_NaN(); });
  expect_error({"generate", nan, "--ids", "1,5"}, {"blocks.1"});
  expect_error({"logits", nan, "--ids", "1,5", "--out", folder / "out"}, {"blocks.1"});
  expect_error({"trace", nan, "--ids", "1,5", "--out", folder / "out"}, {"blocks.1"});

  patch_config(key, [](Json& config) { config["odd_key"] = 1, config["odder_key"] = 2; });
  const Arguments all = {"generate", key, "--ids", "1", "--max-tokens", "1", "--allow-config-key", "odd_key"};
  expect_error(all, {"odder_key", "--allow-config-key"});
  Arguments both = all;
  both.insert(both.end(), {"--allow-config-key", "odder_key"});
  output_of(both);
  EXPECT_THAT(folder.files(), testing::IsEmpty());
}

TEST(Usage, IdsBeyondTheVocabulary) {
  for (const std::string id : {"43", "-1", "2147483647"}) {
    expect_error({"generate", golden("gpt2"), "--ids", "1," + id}, {id, "42"});
    expect_error({"generate", golden("gpt2"), "--ids=" + id + ",1"}, {id, "42"});
  }
}

}  // namespace
}  // namespace vitrine::test
