// vocab.txt and tokenizer_config.json: `vocab #config config`.
#include "tokenizer/read/bert_vocab.h"

#include "exercise_tokenizer.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    const auto [vocab, config] = fuzz::cut(file, "#config");
    return parse_bert_vocab(vocab, "vocab.txt", config, "tokenizer_config.json");
  });
}
