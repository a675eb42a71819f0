// predict MODEL TEXT [TOKENIZER]: prints the most likely next tokens and their probabilities.
#include <vitrine/vitrine.h>

#include <cmath>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: predict MODEL TEXT [TOKENIZER]\n";
    return 2;
  }
  try {
    const auto model = vitrine::LanguageModel::open(argv[1], {.tokenizer = argc > 3 ? argv[3] : ""});
    for (const vitrine::TokenLogprob& token : model.next(argv[2], 5)) {
      std::cout << std::exp(token.logprob) << "  " << model.tokenizer().piece(token.id) << "\n";
    }
  } catch (const vitrine::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
