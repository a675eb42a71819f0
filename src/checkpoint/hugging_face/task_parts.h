// Classes of transformers that do not predict tokens: classifiers, taggers, answers, choices.
#pragma once

#include "checkpoint/family.h"

namespace vitrine {

/// The classes that read every row: ForTokenClassification (`classifier`), ForQuestionAnswering (`qa_outputs`).
std::vector<TaskClass> row_classes();
/// Those that read one row through a dense layer with an activation, ForSequenceClassification and ForMultipleChoice,
/// next to row_classes(). `dense` and `out` are the names of the tensors of the former, `choice` that of the latter's
/// dense layer.
std::vector<TaskClass> pooled_classes(std::string_view dense, Activation activation, std::string_view out,
                                      std::string_view choice);
/// Those of decoders: the last row that is not padding, without a dense layer (`score`), and row_classes() with a bias
/// (`score`). `pad_id` is the default of pad_token_id.
std::vector<TaskClass> decoder_classes(std::optional<std::int32_t> pad_id = std::nullopt);

/// The class of a family that `architectures` names; null: none, so the family's own class is meant.
const TaskClass* task_class_of(const Family& family, const Json& config);
/// Leaves out the heads of all classes: those of a folder whose class has none.
void leave_out_heads(Family& family);
/// The family with the tensors of the class instead of those of its own head. What other classes have is left out.
Family with_task(const Family& family, const TaskClass& task);
/// Reads the labels of the family's task, and what else its class reads, and puts the head in place of the model's.
void read_task(ConfigReader& config, const TaskClass& task, ModelConfig& model);

}  // namespace vitrine
