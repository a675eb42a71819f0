// One function per command, which adds the command to the program.
#pragma once

#include <CLI/CLI.hpp>

namespace vitrine::cli {

void add_predict(CLI::App& program);
void add_generate(CLI::App& program);
void add_logits(CLI::App& program);
void add_grad(CLI::App& program);
void add_tokenize(CLI::App& program);
void add_detokenize(CLI::App& program);
void add_trace(CLI::App& program);
void add_eval(CLI::App& program);
void add_info(CLI::App& program);
void add_init(CLI::App& program);
void add_bench(CLI::App& program);
void add_quantize(CLI::App& program);
void add_tokenizer(CLI::App& program);
void add_data(CLI::App& program);
void add_plot(CLI::App& program);
void add_train(CLI::App& program);
void add_embed(CLI::App& program);
void add_example(CLI::App& program);

}  // namespace vitrine::cli
