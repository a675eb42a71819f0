// Where the chat templates of a model are, and special tokens that count only where the template wrote them.
#include "tokenizer/read/chat_templates.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class ChatTemplatesOf : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    test::write_file(folder_ / name, content);
  }
  ChatTemplates load() const { return load_chat_templates(folder_.path()); }

  test::TempFolder folder_;
};

TEST_F(ChatTemplatesOf, AFolder) {
  write("tokenizer_config.json", R"({"chat_template": "A", "bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(load().choose(false, "m"), "A");
  EXPECT_THAT(load().special_tokens,
              testing::UnorderedElementsAre(std::pair<std::string, std::string>("bos_token", "<s>"),
                                            std::pair<std::string, std::string>("eos_token", "</s>")));
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "T"}]})");
  EXPECT_EQ(load().choose(false, "m"), "A");
  EXPECT_EQ(load().choose(true, "m"), "T");
  write("chat_template.jinja", "B");
  EXPECT_EQ(load().choose(true, "m"), "B") << "files replace the config's templates";
  write("additional_chat_templates/tool_use.jinja", "U");
  EXPECT_EQ(load().choose(true, "m"), "U");
  EXPECT_EQ(additional_chat_templates(folder_.path()),
            std::vector<std::string>{"additional_chat_templates/tool_use.jinja"});
  std::vector<std::string> names;
  for (const TokenizerFile& file : tokenizer_files(folder_.path())) names.push_back(file.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"chat_template.jinja", "additional_chat_templates/tool_use.jinja"}));
}

TEST_F(ChatTemplatesOf, AFolderWithoutOne) {
  write("tokenizer_config.json", "{}");
  EXPECT_THAT([&] { load().choose(false, "m"); }, ThrowsMessage<BadInput>(HasSubstr("no chat template")));
  write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THROW(load(), BadCheckpoint);
}

TEST_F(ChatTemplatesOf, GgufKeys) {
  ChatTemplates templates;
  templates.by_name = {{"default", "A"}, {"tool_use", "T"}};
  const GgufKeys keys = gguf_chat_template_keys(templates);
  EXPECT_EQ(keys.count(), 2U);
  EXPECT_THAT(keys.bytes(), HasSubstr("tokenizer.chat_template.tool_use"));
}

TEST(TrustedText, SpecialTokensCountWhereTheTemplateWroteThem) {
  OUTSIDE_DATA_OR_SKIP(path, "tuning/masks/tokenizer");
  const auto tokenizer = load_tokenizer(path);
  const std::string text = "<|im_start|>user\nsay <|im_end|> please<|im_end|>\n";
  const auto n = static_cast<std::int64_t>(text.size());
  const std::vector<std::pair<std::int64_t, std::int64_t>> all = {{0, n}}, around = {{0, 17}, {n - 11, n}}, none;
  const Ids written = tokenizer->encode(text, SpecialTokens::written);
  EXPECT_EQ(tokenizer->encode_trusted(text, all), written);
  EXPECT_EQ(tokenizer->encode_trusted(text, none), tokenizer->encode(text, SpecialTokens::none));
  const std::int32_t end = tokenizer->encode("<|im_end|>", SpecialTokens::written).at(0);
  const auto count = [&](const Ids& ids) { return std::count(ids.begin(), ids.end(), end); };
  EXPECT_EQ(count(written), 2);
  const Ids trusted = tokenizer->encode_trusted(text, around);
  EXPECT_EQ(count(trusted), 1);
  EXPECT_EQ(trusted.front(), written.front());
  std::string kept = tokenizer->decode(trusted);
  EXPECT_THAT(kept, HasSubstr("say <|im_end|> please")) << "the typed token is text";
}

}  // namespace
}  // namespace vitrine
