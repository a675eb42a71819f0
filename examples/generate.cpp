// generate MODEL TEXT [TOKENIZER]: continues a text and prints it as it is generated.
#include <vitrine/vitrine.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: generate MODEL TEXT [TOKENIZER]\n";
    return 2;
  }
  try {
    const auto model = vitrine::LanguageModel::open(argv[1], {.tokenizer = argc > 3 ? argv[3] : ""});
    vitrine::GenerateOptions options;
    options.max_tokens = 40;
    options.temperature = 0;  // always the most likely token
    options.on_text = [](const std::string& text) { std::cout << text << std::flush; };
    const vitrine::GenerateResult result = model.generate(argv[2], options);
    std::cout << "\n" << result.ids.size() << " tokens, ended by " << name_of(result.finish_reason) << "\n";
  } catch (const vitrine::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
