// The program with the folder of a model that reads images around a text model: what it runs, writes and refuses.
#include "cli/program.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

/// Gemma 3's golden, and the same in a wrapper with a vision tower.
class WrapperFolder : public testing::Test {
 protected:
  WrapperFolder() {
    std::filesystem::copy(golden("gemma3"), alone_);
    patch_config(alone_, [](Json& config) { config["query_pre_attn_scalar"] = config["head_dim"]; });  // as in GGUF
    std::filesystem::copy(alone_, wrapper_);
    patch_config(wrapper_, [](Json& config) {
      Json text = config;
      text.erase("architectures");
      config = {{"model_type", "gemma3"},  {"architectures", {"Gemma3ForConditionalGeneration"}},
                {"text_config", text},     {"vision_config", Json::object()},
                {"image_token_index", 20}, {"torch_dtype", "float32"}};
    });
    SafetensorsWriter writer(wrapper_ + "/model.safetensors", 1 << 14);
    const SafetensorsFile file = SafetensorsFile::open(alone_ + "/model.safetensors");
    const auto add = [&](const std::string& name, const StoredTensor& tensor) {
      writer.begin(name, *tensor.type, tensor.shape);
      writer.append(tensor.bytes);
    };
    for (const auto& [name, tensor] : file.tensors()) add("language_model." + name, tensor);
    add("vision_tower.weight", file.tensors().at("model.norm.weight"));
    writer.commit();
    write_file(wrapper_ + "/preprocessor_config.json", "{}");
    write_file(wrapper_ + "/generation_config.json", R"({"max_new_tokens": 5})");
  }

  static Json predictions(const std::string& model, const Arguments& more = {}) {
    Arguments all = {"predict", model, "--ids", "1,2,3,4", "--top", "5"};
    all.insert(all.end(), more.begin(), more.end());
    Json json = json_of(all);
    json.erase("model");
    return json["tokens"];
  }

  const TempFolder out_;
  const std::string alone_ = out_ / "alone", wrapper_ = out_ / "wrapper";
};

TEST_F(WrapperFolder, InfoSaysWhatIsNotRead) {
  const std::string text = output_of({"info", wrapper_});
  EXPECT_THAT(text, HasSubstr("gemma3_text in gemma3, Hugging Face checkpoint"));
  EXPECT_THAT(text, HasSubstr("Not read: vision_tower, 1 tensors, 0.00 GB"));
  EXPECT_THAT(text, HasSubstr("language_model.model.embed_tokens.weight"));
  const Json json = json_of({"info", wrapper_}), alone = json_of({"info", alone_});
  EXPECT_EQ(json["unread"], Json::parse(R"([{"what": "vision_tower", "tensors": 1, "bytes": 64}])"));
  EXPECT_EQ(json["params"], alone["params"]);
  EXPECT_EQ(json["bytes"], alone["bytes"]);
  EXPECT_EQ(json_of({"info", wrapper_ + "/config.json"})["params"], alone["params"]);
  std::filesystem::remove(wrapper_ + "/model.safetensors");
  EXPECT_EQ(json_of({"info", wrapper_})["params"], alone["params"]) << "before the weights are there";
}

TEST_F(WrapperFolder, InfoOfAConfigSaysWhyATypeIsNotSupported) {
  write_file(wrapper_ + "/config.json",
             R"({"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"]})");
  std::filesystem::remove(wrapper_ + "/model.safetensors");
  for (const std::string& path : {wrapper_ + "/config.json", wrapper_}) {
    expect_error({"info", path},
                 {"config.json] model_type deepseek_v32: not supported: sparse attention by an indexer; "
                  "nearest: deepseek_v3\n"});
  }
}

TEST_F(WrapperFolder, PlaceholdersAreRefused) {
  for (const char* command : {"generate", "predict", "grad", "logits", "trace"}) {
    Arguments all = {command, wrapper_, "--ids", "1,20,3"};
    if (command != std::string("generate") && command != std::string("predict")) {
      all.insert(all.end(), {"--out", out_ / "values"});
    }
    expect_error(all, {"image token 20: this model's vision tower is not read"});
  }
}

TEST_F(WrapperFolder, GradientsHaveTheNamesOfTheFile) {
  output_of({"grad", wrapper_, "--ids", "1,2,3", "--out", out_ / "g.safetensors"});
  output_of({"grad", alone_, "--ids", "1,2,3", "--out", out_ / "alone.safetensors"});
  const Values ours = tensors_of(out_ / "g.safetensors"), alone = tensors_of(out_ / "alone.safetensors");
  ASSERT_EQ(ours.size(), alone.size());
  for (const auto& [name, value] : alone) {
    ASSERT_TRUE(ours.contains("language_model." + name)) << name;
    EXPECT_EQ(ours.at("language_model." + name).data, value.data) << name;
  }
}

TEST_F(WrapperFolder, MergingAndQuantizingWriteTheTextHalf) {
  output_of({"lora", "new", wrapper_, out_ / "adapter", "--rank", "2", "--seed", "1"});
  for (const auto& [name, value] : tensors_of(out_ / "adapter/adapter_model.safetensors")) {
    EXPECT_TRUE(name.starts_with("base_model.model.model.language_model.layers.")) << name;
  }
  const Json targets = Json::parse(read_file(out_ / "adapter/adapter_config.json"))["target_modules"];
  EXPECT_THAT(targets.dump(), HasSubstr("\"model.language_model.layers.0.mlp.down_proj\""));
  EXPECT_EQ(predictions(alone_, {"--adapter", out_ / "adapter"}), predictions(alone_));
  output_of({"lora", "merge", wrapper_, out_ / "adapter", out_ / "merged"});
  const Json config = Json::parse(read_file(out_ / "merged/config.json"));
  EXPECT_EQ(config["model_type"], "gemma3_text");
  EXPECT_EQ(config["architectures"], Json({"Gemma3ForCausalLM"}));
  EXPECT_FALSE(config.contains("text_config"));
  EXPECT_TRUE(std::filesystem::exists(out_ / "merged/generation_config.json"));
  EXPECT_FALSE(std::filesystem::exists(out_ / "merged/preprocessor_config.json"));
  EXPECT_TRUE(tensors_of(out_ / "merged/model.safetensors").contains("model.norm.weight"));
  EXPECT_EQ(predictions(out_ / "merged"), predictions(wrapper_));

  EXPECT_EQ(run_program({"quantize", wrapper_, out_ / "model.gguf", "--type", "f32"}).status, 0);
  EXPECT_EQ(run_program({"quantize", alone_, out_ / "alone.gguf", "--type", "f32"}).status, 0);
  EXPECT_EQ(read_file(out_ / "model.gguf"), read_file(out_ / "alone.gguf"));
}

TEST_F(WrapperFolder, TrainingWritesTheTextHalf) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the cat sat on the mat\n";
  write_file(out_ / "text.txt", text);
  output_of({"tokenizer", "train", out_ / "text.txt", "--model", "char", "--out", out_ / "char.json"});
  output_of({"data", "pack", out_ / "text.txt", "--tokenizer", out_ / "char.json", "--out", out_ / "tokens"});
  const auto train = [&](const std::string& name, const std::string& lora) {
    write_file(out_ / "run.toml", "[model]\nfrom = \"" + wrapper_ + "\"\n[data]\ntrain = \"" + out_ / "tokens" +
                                      "\"\n[train]\nsteps = 2\nbatch = 1\nseq_len = 8\n" + lora + "[out]\nfolder = \"" +
                                      out_ / name + "\"\n");
    EXPECT_EQ(run_program({"train", out_ / "run.toml"}).status, 0);
    return out_ / (name + "/last");
  };
  const std::string whole = train("whole", ""), adapter = train("adapter", "[lora]\nrank = 2\n");
  const Json config = Json::parse(read_file(whole + "/config.json"));
  EXPECT_EQ(config["model_type"], "gemma3_text");
  EXPECT_FALSE(config.contains("text_config"));
  const Values ours = tensors_of(whole + "/model.safetensors"), alone = tensors_of(alone_ + "/model.safetensors");
  ASSERT_EQ(ours.size(), alone.size());
  for (const auto& [name, value] : alone) EXPECT_TRUE(ours.contains(name)) << name;
  for (const auto& [name, value] : tensors_of(adapter + "/adapter_model.safetensors")) {
    EXPECT_TRUE(name.starts_with("base_model.model.model.language_model.layers.")) << name;
  }
}

}  // namespace
}  // namespace vitrine::test
