// vocab.txt and tokenizer_config.json: `vocab #config config`.
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/read/tokenizer_json.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    const auto [vocab, config] = fuzz::cut(file, "#config");
    TokenizerFiles files;
    files.config = parse_json(config, "tokenizer_config.json");
    const TokenizerFolder folder = make_tokenizer_folder("", "vocab.txt", std::move(files), false);
    return make_json_tokenizer(folder_document(folder, std::as_bytes(std::span(vocab)), ""), "vocab.txt");
  });
}
