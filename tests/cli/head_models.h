// The models of tests/goldens/heads with a tokenizer.
#pragma once

#include <filesystem>
#include <string>

#include "cli/program.h"

namespace vitrine::test {

/// Words of one letter, a to z, as ids 5 to 30, [CLS] a [SEP] b [SEP] with [CLS] 1 and [SEP] 2.
inline std::string letter_words() {
  Json vocab = {{"[PAD]", 0}, {"[CLS]", 1}, {"[SEP]", 2}, {"[UNK]", 3}, {"[MASK]", 4}};
  for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = 5 + i;
  return Json({{"model", {{"type", "WordLevel"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}},
               {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
               {"post_processor", {{"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 1}}}}})
      .dump();
}

/// Writes a golden with letter_words() to `path`, and the keys of `more` into its config. Returns the path.
inline std::string head_model(const std::string& path, const std::string& golden, const Json& more = Json::object()) {
  using std::filesystem::copy_options;
  std::filesystem::copy(goldens() + "/heads/" + golden, path,
                        copy_options::recursive | copy_options::overwrite_existing);
  write_file(path + "/tokenizer.json", letter_words());
  Json config = Json::parse(read_file(path + "/config.json"));
  config.update(more);
  write_file(path + "/config.json", config.dump());
  return path;
}

/// Writes the golden qwen3_reward to `path` as a CrossEncoder of sentence-transformers that reads pairs in a chat
/// template: q QUERY d DOCUMENT s. Returns the path.
inline std::string chat_reranker(const std::string& path) {
  head_model(path, "qwen3_reward");
  const Json forward = {{"method", "forward"}, {"method_output_name", "logits"}};
  Json message = forward;
  message["format"] = "flat";
  write_file(path + "/sentence_bert_config.json", Json({{"transformer_task", "sequence-classification"},
                                                        {"modality_config", {{"text", forward}, {"message", message}}},
                                                        {"module_output_name", "scores"}})
                                                      .dump());
  write_file(path + "/config_sentence_transformers.json", R"({"model_type": "CrossEncoder"})");
  write_file(path + "/modules.json", R"([{"idx": 0, "name": "0", "path": "",
    "type": "sentence_transformers.base.modules.transformer.Transformer"}])");
  write_file(path + "/chat_template.jinja",
             "{% for m in messages %}{{ 'q' if m.role == 'query' else 'd' }} {{ m.content | trim }} {% endfor %}s");
  return path;
}

}  // namespace vitrine::test
