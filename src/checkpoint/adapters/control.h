// Files of control vectors, which llama.cpp writes and reads: GGUF of architecture "controlvector" with the tensors
// direction.N, F32 [d], N >= 1, which are added to the residual stream after block N.
//
// Source: ggml-org/llama.cpp, common/common.cpp (common_control_vector_load), src/llama-adapter.cpp.
#pragma once

#include <memory>
#include <string>

#include "model/config.h"
#include "pass/modifiers.h"

namespace vitrine {

/// Reads a file for a model. Throws BadInput for a file that is no control vector, BadCheckpoint, naming the tensor,
/// for names and types of other tensors, a block or width that the model does not have, values that are not finite, and
/// a file without directions; Unsupported for models with an encoder or several residual streams.
std::shared_ptr<const ControlVector> load_control(const std::string& path, const ModelConfig& config);

/// Throws Unsupported as load_control() does.
void require_one_stream(const ModelConfig& config, const std::string& where);

/// Writes a file, with the keys controlvector.model_hint and controlvector.layer_count.
void write_control(const std::string& path, const ControlVector& control, const ModelConfig& config);

}  // namespace vitrine
