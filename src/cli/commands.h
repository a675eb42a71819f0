// One function per command, which adds the command to the program.
#pragma once

#include "cli/command.h"

namespace vitrine::cli {

using AddCommand = void(Command& program);

AddCommand add_predict, add_generate, add_logits, add_grad, add_tokenize, add_detokenize, add_trace, add_eval, add_info,
    add_init, add_bench, add_quantize, add_imatrix, add_tokenizer, add_data, add_plot, add_train, add_embed,
    add_example, add_fill, add_translate, add_encode, add_similarity, add_classify, add_rerank, add_tag, add_answer,
    add_score, add_lora, add_template, add_chat, add_lens, add_heads, add_attribute, add_patch, add_look, add_serve,
    add_constrain, add_control, add_features, add_circuit, add_probe, add_pull, add_models;

}  // namespace vitrine::cli
