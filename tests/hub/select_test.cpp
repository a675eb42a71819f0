// Which files of a repository a name means.
#include "hub/select.h"

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

HubSelection select(const std::string& name, const std::vector<std::string>& paths, HubWanted wanted = HubWanted::model,
                    const std::string& index = "") {
  return select_files(parse_hub_name(name), wanted, paths, [&](const std::string&) { return index; });
}

std::string refused(const std::string& name, const std::vector<std::string>& paths, HubWanted wanted = HubWanted::model,
                    const std::string& index = "") {
  return message_of<Error>([&] { select(name, paths, wanted, index); });
}

const std::vector<std::string> kFolder = {".gitattributes",
                                          "README.md",
                                          "config.json",
                                          "generation_config.json",
                                          "model.safetensors",
                                          "pytorch_model.bin",
                                          "tokenizer.json",
                                          "tokenizer_config.json",
                                          "vocab.json",
                                          "merges.txt",
                                          "spiece.model",
                                          "1_Pooling/config.json",
                                          "2_Dense/config.json",
                                          "2_Dense/model.safetensors",
                                          "modules.json",
                                          "onnx/model.onnx",
                                          "onnx/tokenizer.json",
                                          "chat_template.jinja",
                                          "flax_model.msgpack",
                                          "model.Q8_0.gguf",
                                          "config_sentence_transformers.json",
                                          "additional_chat_templates/rag.jinja"};

TEST(HubSelect, AFolderHasWhatVitrineReads) {
  const HubSelection folder = select("hf:o/n", kFolder);
  EXPECT_EQ(folder.opened, "");
  EXPECT_THAT(
      folder.files,
      UnorderedElementsAre("config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "vocab.json", "merges.txt", "spiece.model", "1_Pooling/config.json",
                           "2_Dense/config.json", "2_Dense/model.safetensors", "modules.json", "chat_template.jinja",
                           "config_sentence_transformers.json", "additional_chat_templates/rag.jinja"));
  EXPECT_THAT(select("hf:o/n:Q8_0", kFolder).files, ElementsAre("model.Q8_0.gguf"));
  EXPECT_EQ(select("hf:o/n:Q8_0", kFolder).opened, "model.Q8_0.gguf");
}

TEST(HubSelect, ATokenizerHasNoWeights) {
  const HubSelection tokenizer = select("hf:o/n", kFolder, HubWanted::tokenizer);
  EXPECT_THAT(tokenizer.files, testing::Contains("tokenizer.json"));
  EXPECT_THAT(tokenizer.files, testing::Not(testing::Contains("model.safetensors")));
  EXPECT_EQ(select("hf:o/n", kFolder, HubWanted::chat_template).opened, "chat_template.jinja");
  EXPECT_THAT(refused("hf:o/n", {"model.safetensors", "config.json"}, HubWanted::tokenizer), HasSubstr("no tokenizer"));
  EXPECT_THAT(refused("hf:o/n", {"a.gguf"}, HubWanted::chat_template), HasSubstr("no chat_template.jinja"));
}

TEST(HubSelect, ShardsAreThoseOfTheIndex) {
  const std::vector<std::string> paths = {"config.json", "model.safetensors.index.json", "model-1.safetensors",
                                          "model-2.safetensors", "consolidated.safetensors"};
  EXPECT_THAT(select("hf:o/n", paths, HubWanted::model,
                     R"({"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors"}})")
                  .files,
              UnorderedElementsAre("config.json", "model.safetensors.index.json", "model-1.safetensors",
                                   "model-2.safetensors"));
  for (const char* const index :
       {R"({"weight_map": {"a": "../x.safetensors"}})", R"({"weight_map": {"a": "x.bin"}})",
        R"({"weight_map": {"a": 1}})", "{}", "[]", "{", R"({"weight_map": {"a": "absent.safetensors"}})"}) {
    EXPECT_NE(refused("hf:o/n", paths, HubWanted::model, index), "") << index;
  }
}

TEST(HubSelect, AnAdapterIsAFolder) {
  EXPECT_THAT(select("hf:o/n", {"adapter_config.json", "adapter_model.safetensors", "README.md"}).files,
              UnorderedElementsAre("adapter_config.json", "adapter_model.safetensors"));
}

TEST(HubSelect, PicklesAloneAreRefusedByName) {
  EXPECT_THAT(refused("hf:o/n", {"config.json", "pytorch_model.bin"}), HasSubstr("pytorch_model.bin"));
  EXPECT_THAT(refused("hf:o/n", {"adapter_config.json", "adapter_model.bin"}), HasSubstr("adapter_model.bin"));
  EXPECT_THAT(refused("hf:o/n", {"config.json"}), HasSubstr("no .gguf"));
}

const std::vector<std::string> kChoices = {"m-Q4_K_M.gguf", "m-Q4_K_S.gguf",   "m-q8_0.gguf",    "m.F16.gguf",
                                           "BF16/m.gguf",   "mmproj-F16.gguf", "m.imatrix.gguf", "README.md"};

TEST(HubSelect, AQuantizationIsAWordOfThePath) {
  EXPECT_EQ(select("hf:o/n", kChoices).opened, "m-Q4_K_M.gguf");
  EXPECT_EQ(select("hf:o/n:q4_k_s", kChoices).opened, "m-Q4_K_S.gguf");
  EXPECT_EQ(select("hf:o/n:Q8_0", kChoices).opened, "m-q8_0.gguf");
  EXPECT_EQ(select("hf:o/n:F16", kChoices).opened, "m.F16.gguf");
  EXPECT_EQ(select("hf:o/n:BF16", kChoices).opened, "BF16/m.gguf");
  EXPECT_EQ(select("hf:o/n:m.F16.gguf", kChoices).opened, "m.F16.gguf");
  for (const char* const what : {"Q4_K", "Q4", "Q8", "16", "mmproj", "Q5_K_M"}) {
    EXPECT_THAT(refused(std::string("hf:o/n:") + what, kChoices),
                testing::AllOf(HasSubstr("m-Q4_K_M.gguf, "), testing::Not(HasSubstr("mmproj-F16"))))
        << what;
  }
  EXPECT_EQ(select("hf:o/n", {"only-IQ3_XXS.gguf"}).opened, "only-IQ3_XXS.gguf");
  EXPECT_EQ(select("hf:o/n", {"a.F32.gguf", "a.Q8_0.gguf", "a.Q6_K.gguf"}).opened, "a.Q6_K.gguf");
  EXPECT_THAT(refused("hf:o/n", {"a.IQ1_S.gguf", "a.IQ2_S.gguf"}), HasSubstr("a.IQ1_S.gguf, a.IQ2_S.gguf"));
  EXPECT_THAT(refused("hf:o/n:Q8_0", {"a.Q8_0.gguf", "b.Q8_0.gguf"}), HasSubstr("a.Q8_0.gguf, b.Q8_0.gguf"));
}

TEST(HubSelect, ASplitFileIsOneChoice) {
  const std::vector<std::string> paths = {"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "m-Q2_K.gguf"};
  const HubSelection split = select("hf:o/n:Q8_0", paths);
  EXPECT_EQ(split.opened, paths[0]);
  EXPECT_THAT(split.files, ElementsAre(paths[0], paths[1]));
  EXPECT_THAT(refused("hf:o/n:Q8_0", {paths[0], paths[2]}), HasSubstr("00002-of-00002.gguf is missing"));
}

}  // namespace
}  // namespace vitrine::test
