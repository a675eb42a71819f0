// What a model that was read must do, whatever the file said.
#pragma once

#include "checkpoint/load.h"

namespace vitrine::fuzz {

/// Runs some tokens at once on the kernels of this machine, and one by one through a cache on the scalar kernels: the
/// logits are the same bits, or both passes refuse the model. Refusing throws as Model::forward does.
void exercise_model(const Checkpoint& checkpoint);

}  // namespace vitrine::fuzz
